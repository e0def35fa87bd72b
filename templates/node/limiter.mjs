// A rate limiter behind the lines that rl-lab speaks (docs/protocol.md), with what Node.js brings along.
//
// Put your own limiter into `decide`. Everything below it is the connection to Redis and the protocol.

import { connect } from 'node:net'
import { createInterface } from 'node:readline'

// A fixed window that the first admitted call opens; refused calls cost nothing. One script is one step.
const SCRIPT = `
local cost = tonumber(ARGV[3])
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count + cost > tonumber(ARGV[1]) then
  return {0, count, redis.call('PTTL', KEYS[1])}
end
redis.call('INCRBY', KEYS[1], cost)
if redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, count + cost, 0}`

// Whether the call is admitted: what the lab is told of it.
async function decide(redis, key, cost, limit, windowMs) {
  const [allowed, count, left] = await redis('EVAL', SCRIPT, 1, key, limit, windowMs, cost)
  // Read-then-write: two callers read the same count before either writes. Put this in place of the line above,
  // and `rl-lab gate` says what comes of it.
  //   let count = Number((await redis('GET', key)) ?? 0)
  //   const left = await redis('PTTL', key)
  //   const allowed = count + cost <= limit
  //   if (allowed) {
  //     count = await redis('INCRBY', key, cost)
  //     if ((await redis('PTTL', key)) < 0) await redis('PEXPIRE', key, windowMs)
  //   }
  const wait = !allowed && left > 0 ? { retry_after_ms: left } : {}
  return { allowed: Boolean(allowed), remaining: Math.max(0, limit - count), ...wait }
}

class Refused extends Error {}
class NotConnected extends Error {}

// One connection, whose replies come in the order of its commands. Made again after it broke.
class Redis {
  constructor(url) {
    this.url = new URL(url)
    this.waiting = []
  }

  open() {
    this.ready ??= new Promise((resolve, reject) => {
      const socket = connect(Number(this.url.port || 6379), this.url.hostname)
      let text = Buffer.alloc(0)
      socket.setNoDelay(true)
      socket.once('connect', () => resolve(socket))
      socket.on('data', (more) => {
        text = Buffer.concat([text, more])
        for (let read; (read = parse(text, 0)); text = text.subarray(read.end)) {
          const { resolve, reject } = this.waiting.shift()
          read.value instanceof Refused ? reject(read.value) : resolve(read.value)
        }
      })
      const lost = (error) => {
        this.ready = undefined
        reject(new NotConnected(error?.message ?? 'the store hung up'))
        for (const one of this.waiting.splice(0)) one.reject(error ?? new Error('the store hung up'))
      }
      socket.on('error', lost)
      socket.on('close', () => lost())
    })
    return this.ready
  }

  async send(words) {
    const socket = await this.open()
    const parts = words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`)
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject })
      socket.write(`*${words.length}\r\n${parts.join('')}`)
    })
  }
}

// A reply from here on, with where it ends; nothing while it is not whole.
function parse(text, from) {
  const line = text.indexOf('\r\n', from)
  if (line < 0) return undefined
  const rest = text.toString('utf8', from + 1, line)
  const end = line + 2
  switch (text[from]) {
    case 0x3a: // ':'
      return { value: Number(rest), end }
    case 0x2b: // '+'
      return { value: rest, end }
    case 0x24: { // '$'
      const length = Number(rest)
      if (length < 0) return { value: null, end }
      if (text.length < end + length + 2) return undefined
      return { value: text.toString('utf8', end, end + length), end: end + length + 2 }
    }
    case 0x2a: { // '*'
      const items = []
      let at = end
      for (let left = Number(rest); left > 0; left -= 1) {
        const item = parse(text, at)
        if (!item) return undefined
        items.push(item.value)
        at = item.end
      }
      return { value: items, end: at }
    }
    default:
      return { value: new Refused(rest), end }
  }
}

const say = (fields) => process.stdout.write(`${JSON.stringify(fields)}\n`)

async function answer(request, connections, hello) {
  const { id, op, key, cost = 1, lane = id } = request
  if (op !== 'acquire') {
    return { id, error: { kind: 'unexpected', text: `the op ${op} is not known` }, sent: false }
  }
  const connection = connections[lane % connections.length]
  let sent = 0
  const redis = async (...words) => {
    await connection.open()
    sent += 1
    return connection.send(words)
  }
  try {
    const decision = await decide(redis, key, cost, hello.limit, hello.window_ms)
    return { id, ...decision, sent: sent > 0, round_trips: sent }
  } catch (error) {
    // Of what came before the command that was refused, nobody says whether it was undone.
    let kind = sent > 0 ? 'no-answer' : 'not-connected'
    if (error instanceof Refused && sent <= 1) kind = 'refused'
    if (!(error instanceof Refused || error instanceof NotConnected) && !error.code && sent === 0) kind = 'unexpected'
    return { id, error: { kind, text: error.message }, sent: sent > 0, round_trips: sent }
  }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
let hello
let connections
try {
  hello = JSON.parse((await lines.next()).value ?? '')
  if (hello.hello !== 1) throw new Error('no hello of protocol 1')
  if (hello.clock_offset_ms) throw new Error('it goes by the clock of the store: no offset can be set')
  connections = Array.from({ length: hello.connections }, () => new Redis(hello.redis))
  if (!hello.cold_pool) await Promise.all(connections.map((connection) => connection.open()))
} catch (wrong) {
  say({ ready: false, error: wrong.message })
  process.exit(2)
}
say({ ready: true, name: 'limiter.mjs', version: '1', capabilities: [] })

const open = new Set()
let code = 0
for await (const line of lines) {
  let request
  try {
    request = JSON.parse(line)
    if (!Number.isInteger(request.id)) throw new Error('no id')
  } catch {
    console.error(`limiter: no request: ${line.slice(0, 200)}`)
    code = 2
    break
  }
  const one = answer(request, connections, hello).then(say)
  open.add(one)
  one.finally(() => open.delete(one))
}
await Promise.all(open)
process.exit(code)
