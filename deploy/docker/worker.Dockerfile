# A rank: the worker with LibTorch, of which the CPU's part is taken. 393 MB.
#
#   docker build -f deploy/docker/worker.Dockerfile -t cpfeed/worker:0.1.0 .
FROM debian:12-slim AS build
# "yes" builds for GPUs; the image then has the CUDA libraries that are loaded,
# and the driver comes from the node.
ARG CUDA=
RUN apt-get -qq update && \
    apt-get -qq install -y --no-install-recommends ca-certificates python3 procps
WORKDIR /src
COPY . .
RUN tools/setup ${CUDA:+--python --cuda}
RUN bazel build ${CUDA:+--config=cuda_full} -- \
    //client/worker:cpfeed_worker
RUN tools/bundle --root /image bazel-bin/client/worker/cpfeed_worker

FROM scratch
COPY --from=build /image/ /
ENV PATH=/usr/bin NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
EXPOSE 29500
ENTRYPOINT ["cpfeed_worker"]
