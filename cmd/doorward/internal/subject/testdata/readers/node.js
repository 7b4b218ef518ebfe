// Reads requests in the ways of Node: what is built in, and what tutorials do.
// Answers with [way, base64 of the value] for each way that finds a value.
'use strict'
const http = require('node:http')
const querystring = require('node:querystring')

// flatten tells all that code may find in a value that it takes for a string.
async function flatten(value) {
  if (value === undefined || value === null) return []
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return (await Promise.all(value.map(flatten))).flat()
  if (value instanceof Blob) return [await value.text()]
  return [typeof value === 'object' ? 'object ' + JSON.stringify(value) : String(value)]
}

const same = (a, b) => a.toLowerCase() === b.toLowerCase()

// walk follows keys, in any letter case if fold is set.
function walk(value, keys, fold) {
  for (const key of keys) {
    if (value === undefined || value === null) return value
    value = fold ? Object.entries(value).filter(([k]) => same(k, key)).map(([, v]) => v)[0] : value[key]
  }
  return value
}

function forms(ways, text, name) {
  const params = new URLSearchParams(text)
  ways['URLSearchParams'] = () => params.getAll(name)
  ways['URLSearchParams, any case'] = () => [...params].filter(([k]) => same(k, name)).map(([, v]) => v)
  ways['querystring'] = () => querystring.parse(text)[name]
}

function json(ways, text, keys) {
  ways['JSON.parse'] = () => walk(JSON.parse(text), keys)
  ways['JSON.parse, any case'] = () => walk(JSON.parse(text), keys, true)
  ways['JSON.parse, merged'] = () => walk(merge({}, JSON.parse(text)), keys)
}

// merge is what careless code does with what it gets.
function merge(into, from) {
  for (const key of Object.keys(from)) {
    if (typeof from[key] === 'object' && from[key] !== null && key === '__proto__') into = Object.create(from[key], Object.getOwnPropertyDescriptors(into))
    else into[key] = from[key]
  }
  return into
}

function waysOf(req, body, kind, value) {
  const ways = {}
  const type = req.headers['content-type']
  const charset = /charset="?([\w-]+)/i.exec(type || '')
  let text = body.toString()
  if (charset) {
    try { text = new TextDecoder(charset[1]).decode(body) } catch {}
  }
  const asForm = name => {
    if (type === undefined || /urlencoded/i.test(type)) forms(ways, text, name)
    if (type !== undefined) ways['Response.formData'] = async () => (await new Response(body, { headers: { 'content-type': type } }).formData()).getAll(name)
  }
  const url = () => new URL(req.url, 'http://app.example')
  const asQuery = name => {
    ways['URL.searchParams'] = () => url().searchParams.getAll(name)
    ways['URL.searchParams, any case'] = () => [...url().searchParams].filter(([k]) => same(k, name)).map(([, v]) => v)
    ways['querystring of the URL'] = () => querystring.parse(req.url.slice(req.url.indexOf('?') + 1))[name]
    ways['querystring of the URL, cut at all marks'] = () => querystring.parse(req.url.split('?').at(-1))[name]
  }
  const asJSON = keys => {
    if (type === undefined || /json/i.test(type)) {
      json(ways, text, keys)
      ways['Response.json'] = async () => walk(await new Response(body).json(), keys)
    }
  }
  switch (kind) {
    case 'form':
      asForm(value)
      asQuery(value)
      break
    case 'query':
      asQuery(value)
      asForm(value)
      asJSON([value])
      break
    case 'json':
      asJSON(value.split('.'))
      asQuery(value)
      break
    case 'header':
      ways['headers'] = () => req.headers[value.toLowerCase()]
      break
    case 'path': {
      const at = value.split('/').findIndex(s => s.startsWith('{'))
      const before = value.split('/').slice(0, at).join('/')
      const from = path => same(path.split('/').slice(0, at).join('/'), before) ? path.split('/')[at] : undefined
      const decode = s => s && decodeURIComponent(s)
      ways['URL.pathname'] = () => decode(from(url().pathname))
      ways['url'] = () => decode(from(req.url.replace(/^\w+:\/\/[^/]*/, '').split('?')[0]))
      ways['after a rewrite into the query'] = () => url().searchParams.get(value.slice(value.indexOf('{') + 1, value.indexOf('}')))
      break
    }
    case 'basic': {
      const authorization = req.headers.authorization
      ways['split'] = () => Buffer.from(authorization.split(' ')[1], 'base64').toString().split(':')[0]
      ways['slice'] = () => Buffer.from(authorization.slice(6), 'base64').toString().split(':')[0]
      ways['basic-auth'] = () => /^([^:]*):(.*)$/.exec(Buffer.from(/^ *(?:[Bb][Aa][Ss][Ii][Cc]) +([A-Za-z0-9._~+/-]+=*) *$/.exec(authorization)[1], 'base64').toString())[1]
      ways['split, of OAuth'] = () => decodeURIComponent(Buffer.from(authorization.split(' ')[1], 'base64').toString().split(':')[0])
    }
  }
  return ways
}

http.createServer({ maxHeaderSize: 1 << 20 }, (req, res) => {
  const chunks = []
  req.on('data', c => chunks.push(c))
  req.on('end', async () => {
    const [kind, value] = (req.headers['doorward-test-source'] || '').split(' ')
    const found = []
    for (const [way, read] of Object.entries(waysOf(req, Buffer.concat(chunks), kind, value))) {
      try {
        for (const v of await flatten(await read())) found.push([way, Buffer.from(v).toString('base64')])
      } catch {} // found nothing
    }
    res.end(JSON.stringify(found))
  })
}).listen(Number(process.argv[2]), '127.0.0.1')
