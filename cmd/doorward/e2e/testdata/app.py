"""Login applications for the tests: python3 app.py KIND PORT LOG. Every request that the
server hands over is a line in LOG; whether it would have been a login, its answer says."""

import http.server
import json
import posixpath
import signal
import socketserver
import sys
import threading
import urllib.parse
import wsgiref.simple_server

kind, port, log_name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
log = open(log_name, "a", encoding="latin-1")
lock = threading.Lock()


def write(line):
    with lock:
        log.write(line + "\n")
        log.flush()


def known(host):
    name = (host or "").lower().partition(":")[0]
    return name.rstrip(".") == "app.example"


class Files(http.server.BaseHTTPRequestHandler):
    """Finds resources as http.server finds files; reads no body, as many handlers do."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        write("%s %s" % (self.command, self.path))
        path = self.path.split("?", 1)[0].split("#", 1)[0]
        path = posixpath.normpath(urllib.parse.unquote(path))
        served = "nothing"
        if known(self.headers.get("Host")):
            if self.command == "POST" and path == "/login":
                served = "login"
            if self.command == "PUT" and path == "/password":
                served = "password"
        self.send_response(200)
        self.send_header("X-Served", served)
        self.send_header("Content-Length", "9")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"answered\n")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = do_TRACE = answer

    def send_error(self, code, message=None, explain=None):
        if code != 501:
            write("BAD %d" % code)
        else:
            write("%s %s" % (self.command, self.path))
        super().send_error(code, message, explain)

    def log_message(self, *args):
        pass


def application(environ, start_response):
    """Reads methods from wherever one may be overridden."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length) if length else b""
    path = environ["PATH_INFO"]
    write("%s %s" % (environ["REQUEST_METHOD"], environ["RAW"]))
    query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""))
    fields = urllib.parse.parse_qs(body.decode("latin-1"))
    if "json" in environ.get("CONTENT_TYPE", ""):
        try:
            fields = {k: [v] for k, v in json.loads(body).items()}
        except ValueError:
            fields = {}
    method = environ["REQUEST_METHOD"]
    for asked in (
        environ.get("HTTP_X_HTTP_METHOD_OVERRIDE"),
        environ.get("HTTP_X_HTTP_METHOD"),
        environ.get("HTTP_X_METHOD_OVERRIDE"),
        query.get("_method", [None])[0],
        fields.get("_method", [None])[0],
    ):
        if asked:
            method = str(asked).strip().upper()
            break
    served = "nothing"
    if known(environ.get("HTTP_HOST")):
        if method == "POST" and path.rstrip("/") == "/login":
            served = "login"
        if method == "PUT" and path.rstrip("/") == "/password":
            served = "password"
    start_response("200 OK", [("X-Served", served), ("Content-Length", "9")])
    return [b"answered\n"]


class Gateway(wsgiref.simple_server.WSGIRequestHandler):
    def get_environ(self):
        environ = super().get_environ()
        environ["RAW"] = self.path
        return environ

    def log_message(self, *args):
        pass

    def send_error(self, code, message=None, explain=None):
        write("BAD %d" % code)
        super().send_error(code, message, explain)


class Threads(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if kind == "files":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Files)
else:
    server = wsgiref.simple_server.make_server("127.0.0.1", port, application, Threads, Gateway)
server.serve_forever()
