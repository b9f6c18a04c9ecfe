# The server and the command line program, which is also the loader. Nothing else
# is in the image but the libraries that they load: 33 MB.
#
#   docker build -f deploy/docker/server.Dockerfile -t cpfeed/server:0.1.0 .
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
    //server:cpfeed_server //client/cli:cpfeed
RUN tools/bundle --root /image \
    bazel-bin/server/cpfeed_server bazel-bin/client/cli/cpfeed

FROM scratch
COPY --from=build /image/ /
ENV PATH=/usr/bin NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
EXPOSE 8470 8471 9470
ENTRYPOINT ["cpfeed_server"]
