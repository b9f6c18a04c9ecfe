"""Real certificates, made by openssl when a test starts."""

import pathlib
import subprocess


def _openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True,
                   timeout=60)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder, name="ca"):
        self.folder = pathlib.Path(folder)
        self.name = name
        self.certificate = str(self.folder / f"{name}.pem")
        self.key = str(self.folder / f"{name}.key")
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                 f"/CN={name}", "-keyout", self.key, "-out", self.certificate)

    def issue(self, name, san):
        """Paths of a certificate with that subject alternative name, and its
        key; an older pair of the name is replaced."""
        key, request, certificate, extensions = (
            str(self.folder / f"{name}.{end}")
            for end in ["key", "csr", "pem", "ext"])
        pathlib.Path(extensions).write_text(f"subjectAltName={san}\n")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                 "-nodes", "-subj", f"/CN={name}", "-keyout", key + ".new",
                 "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate,
                 "-CAkey", self.key, "-CAcreateserial", "-days", "2",
                 "-extfile", extensions, "-out", certificate + ".new")
        pathlib.Path(key + ".new").replace(key)
        pathlib.Path(certificate + ".new").replace(certificate)
        return certificate, key
