"""An API server as the agent needs one: lists, watches and single objects, from memory. The real one takes minutes to build: it is the
cluster's (tests/cluster), where what the API server itself does is looked at, too."""

import contextlib
import http.server
import json
import re
import threading
import urllib.parse

# Where objects of a kind are; what is of no namespace, and what else is asked for, isn't there.
PATHS = {
    "Node": ("v1", "/api/v1", "nodes"),
    "Namespace": ("v1", "/api/v1", "namespaces"),
    "Pod": ("v1", "/api/v1", "pods"),
    "Service": ("v1", "/api/v1", "services"),
    "EndpointSlice": ("discovery.k8s.io/v1", "/apis/discovery.k8s.io/v1", "endpointslices"),
    "NetworkPolicy": ("networking.k8s.io/v1", "/apis/networking.k8s.io/v1", "networkpolicies"),
}


class APIServer:
    """One that answers in a host's namespace."""

    def __init__(self, host):
        self.objects, self.events, self.closed = {}, [], False
        self.changed = threading.Condition()
        with host.entered():
            self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kubeconfig(self, file):
        """Writes into a file how to reach it."""
        server = {"name": "it", "cluster": {"server": f"http://127.0.0.1:{self.server.server_address[1]}"}}
        context = {"name": "it", "context": {"cluster": "it", "user": "it"}}
        whole = {"apiVersion": "v1", "kind": "Config", "clusters": [server], "contexts": [context], "current-context": "it"}
        file.write_text(json.dumps({**whole, "users": [{"name": "it", "user": {}}]}))
        return file

    def put(self, kind, name, namespace="default", labels=None, **rest):
        """Makes an object, or replaces it."""
        named = {"name": name, "uid": f"u-{name}", "labels": labels or {}, **({"namespace": namespace} if namespace else {})}
        self._tell(kind, (namespace, name), {"apiVersion": PATHS[kind][0], "kind": kind, "metadata": named, **rest})

    def delete(self, kind, name, namespace="default"):
        """Deletes one."""
        self._tell(kind, (namespace, name), None)

    def _tell(self, kind, key, new):
        with self.changed:
            there = self.objects.setdefault(kind, {})
            old = there.pop(key, None)
            told = {**(new or old)}
            told["metadata"] = {**told["metadata"], "resourceVersion": str(len(self.events) + 1)}
            if new:
                there[key] = told
            self.events.append((kind, {"type": "DELETED" if not new else "MODIFIED" if old else "ADDED", "object": told}))
            self.changed.notify_all()

    def all(self, kind):
        """A list of all of a kind."""
        with self.changed:
            listed = {"metadata": {"resourceVersion": str(len(self.events))}, "items": list(self.objects.get(kind, {}).values())}
            return {"kind": f"{kind}List", "apiVersion": PATHS[kind][0], **listed}

    def follow(self, kind, seen):
        """What becomes of a kind after a version, as it happens."""
        while True:
            with self.changed:
                while len(self.events) == seen and not self.closed:
                    self.changed.wait()
                if self.closed:
                    return
                news, seen = self.events[seen:], len(self.events)
            yield [event for of, event in news if of == kind]

    def close(self):
        """Ends it."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()


def _handler(api):
    class Handler(http.server.BaseHTTPRequestHandler):
        """Answers one request."""

        def do_GET(self):
            """A list, a watch, or one object."""
            url = urllib.parse.urlsplit(self.path)
            asked = dict(urllib.parse.parse_qsl(url.query))
            for kind, (_, root, plural) in PATHS.items():
                if url.path == f"{root}/{plural}":
                    return self._watch(kind, asked) if asked.get("watch") in ("1", "true") else self._answer(200, api.all(kind))
                if one := re.fullmatch(rf"{root}(?:/namespaces/([^/]+))?/{plural}/([^/]+)", url.path):
                    with api.changed:
                        found = api.objects.get(kind, {}).get((one[1] or "", one[2]))
                    return self._answer(200, found) if found else self._fail(404, "NotFound")
            return self._fail(404, "NotFound")

        def do_POST(self):
            """Events, and what is written of pods' status: nobody here wants to know."""
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self._answer(201, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

        do_PATCH = do_PUT = do_POST

        def _watch(self, kind, asked):
            if "sendInitialEvents" in asked:
                # Whoever asks so asks for a list then.
                return self._fail(422, "Invalid")
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            with contextlib.suppress(OSError):
                for news in api.follow(kind, int(asked.get("resourceVersion") or 0)):
                    self.wfile.write("".join(json.dumps(event) + "\n" for event in news).encode())
            return None

        def _fail(self, code, reason):
            self._answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code})

        def _answer(self, code, thing):
            text = json.dumps(thing).encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            """Nothing is said."""

    return Handler
