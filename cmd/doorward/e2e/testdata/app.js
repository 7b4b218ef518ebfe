// Login applications for the tests: node app.js KIND PORT LOG. Every request that the
// server hands over is a line in LOG; whether it would have been a login, its answer says.
'use strict';
const fs = require('fs');
const http = require('http');
const querystring = require('querystring');

const [kind, port, logName] = process.argv.slice(2);
const log = fs.openSync(logName, 'a');
const write = (line) => fs.writeSync(log, line + '\n');

const known = (req) => /^app\.example\.?(:\d*)?$/i.test(req.headers.host || '');

// plain compares paths as WHATWG URLs have them, decoded.
function plain(req) {
  const path = decodeURIComponent(new URL(req.url, 'http://app.example').pathname);
  return { path: path.replace(/\/$/, ''), method: req.method };
}

// router does what routers with middleware do: letter case and a slash at the end do not
// matter, paths match encoded or decoded, and methods can be overridden from anywhere.
function router(req, body) {
  let path = req.url.replace(/^https?:\/\/[^/?]*/i, '');
  const at = path.indexOf('?');
  const query = querystring.parse(at < 0 ? '' : path.slice(at + 1));
  if (at >= 0) path = path.slice(0, at);
  let decoded = path;
  try { decoded = decodeURIComponent(path); } catch { /* as it is */ }
  const route = (p) => {
    for (const name of ['/login', '/password']) {
      if (new RegExp('^' + name + '/?$', 'i').test(p)) return name;
    }
    return '';
  };
  const h = req.headers;
  let fields = {};
  try { fields = /json/.test(h['content-type']) ? JSON.parse(body) : querystring.parse(body); } catch { /* none */ }
  const asked = [h['x-http-method-override'], h['x-http-method'], h['x-method-override'], query._method, fields._method];
  const method = String(asked.find((m) => m) || req.method).split(',')[0].trim().toUpperCase();
  return { path: route(path) || route(decoded), method };
}

const server = http.createServer((req, res) => {
  let body = '';
  req.on('data', (chunk) => { body += chunk.toString('latin1'); });
  req.on('end', () => {
    write(req.method + ' ' + req.url + ' ' + body.length);
    let served = 'nothing';
    try {
      const r = (kind === 'router' ? router : plain)(req, body);
      if (known(req) && r.method === 'POST' && r.path === '/login') served = 'login';
      if (known(req) && r.method === 'PUT' && r.path === '/password') served = 'password';
    } catch (e) {
      res.statusCode = 400;
    }
    res.setHeader('X-Served', served);
    res.end('answered\n');
  });
});
server.on('clientError', (err, socket) => {
  if (!['ECONNRESET', 'HPE_INVALID_EOF_STATE'].includes(err.code)) write('BAD ' + err.code);
  socket.destroy();
});
server.keepAliveTimeout = 60000;
server.listen(Number(port), '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
