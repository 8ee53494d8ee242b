"""Keys and certificates of a cluster, and the files by which its components find and trust each other."""

import base64
import json

from lab.process import run

ALL_SERVERS = "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1"


class Authority:
    """A certificate authority in a directory."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir()
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "ca.key")
        self._openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=quiver-test", "-days", "2", "-out", "ca.crt")
        # Tokens of service accounts are signed with this one.
        self._openssl("genpkey", "-algorithm", "RSA", "-out", "tokens.key")

    def _openssl(self, what, *arguments):
        files = "-key", "-out", "-CA", "-CAkey", "-in", "-extfile"
        words = [str(self.directory / word) if option in files else word for option, word in zip(("", *arguments), arguments, strict=False)]
        run("openssl", what, *words)

    def issue(self, name, subject, names=""):
        """Makes NAME.key and NAME.crt."""
        extensions = "extendedKeyUsage=serverAuth,clientAuth\n" + (f"subjectAltName={names}\n" if names else "")
        (self.directory / f"{name}.ext").write_text(extensions)
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")
        self._openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        self._openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", f"{name}.ext", "-out", f"{name}.crt",
        )  # fmt: skip

    def kubeconfig(self, name, subject, server):
        """Issues a certificate for a user of the API server, and returns the path of a kubeconfig with it."""
        self.issue(name, subject)
        read = lambda file: base64.b64encode((self.directory / file).read_bytes()).decode()
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": server, "certificate-authority-data": read("ca.crt")}}],
            "users": [{"name": "it", "user": {"client-certificate-data": read(f"{name}.crt"), "client-key-data": read(f"{name}.key")}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(json.dumps(text))
        return path
