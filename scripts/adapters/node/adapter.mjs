#!/usr/bin/env node
// An app server around a Node rate limiter: speaks docs/protocol.md on stdin and stdout.
//
//   adapter.mjs VARIANT [OPTION…]   run one of the variants in variants.mjs
//   adapter.mjs --list              their names
//
// A client for each of the `connections` of the hello; calls are as many at once as are asked for.

import { createInterface } from 'node:readline'
import { AsyncLocalStorage } from 'node:async_hooks'
import { available, choose } from './variants.mjs'
import { connect, kindOf, newCall } from './wire.mjs'

class Unfit extends Error {}

const current = new AsyncLocalStorage()
const say = (fields) => process.stdout.write(JSON.stringify(fields) + '\n')
// stdout is for the protocol alone, whatever a library prints.
console.log = console.info = console.debug = console.error

function readHello(line) {
  let said
  try {
    said = JSON.parse(line)
  } catch (error) {
    throw new Unfit(`the hello cannot be read: ${error.message}`)
  }
  const whole = (name) => Number.isInteger(said?.[name]) && said[name] >= 1
  if (said?.hello !== 1) throw new Unfit(`no hello of protocol 1: ${line.slice(0, 200)}`)
  for (const name of ['limit', 'window_ms', 'connections']) {
    if (!whole(name)) throw new Unfit(`the hello cannot be read: ${name} is ${JSON.stringify(said[name])}`)
  }
  if (typeof said.redis !== 'string') throw new Unfit('the hello cannot be read: redis is no text')
  if (said.clock_offset_ms) throw new Unfit('the library reads the clock of its machine: no offset can be set')
  return {
    redis: said.redis,
    limit: said.limit,
    windowMs: said.window_ms,
    connections: said.connections,
    cold: said.cold_pool === true,
    get seconds() {
      if (said.window_ms % 1000) throw new Unfit(`the library counts in seconds: no window of ${said.window_ms} ms`)
      return said.window_ms / 1000
    },
  }
}

const milliseconds = (value) => (value === undefined ? undefined : Math.max(0, Math.ceil(value)))

async function answerTo(request, lanes, variant) {
  if (request.op !== 'acquire') throw new Unfit(`the op ${JSON.stringify(request.op)} is not known`)
  const { key, cost = 1, lane = request.id } = request
  if (typeof key !== 'string' || !Number.isInteger(cost) || cost < 1) {
    throw new Unfit('the key or the cost cannot be read')
  }
  if (cost !== 1 && !variant.knowsCost) throw new Unfit('the library has no costs: every call counts 1')
  const decision = await lanes[Math.abs(lane) % lanes.length](key, cost)
  const call = current.getStore()
  return {
    ...decision,
    remaining: decision.remaining >= 0 ? decision.remaining : undefined, // one library counts below zero
    retry_after_ms: milliseconds(decision.retry_after_ms),
    reset_ms: milliseconds(decision.reset_ms),
    // An answer for which nothing was sent came from what the library keeps in memory.
    source: decision.source ?? call.source ?? (call.touched ? undefined : 'local'),
    round_trips: call.sends,
  }
}

function serveOne(request, lanes, variant) {
  const call = newCall()
  return current.run(call, async () => {
    try {
      say({ id: request.id, ...(await answerTo(request, lanes, variant)), sent: call.touched })
    } catch (error) {
      const kind = error instanceof Unfit ? 'unexpected' : kindOf(error, call)
      say({ id: request.id, error: { kind, text: `${error?.message ?? error}` }, sent: call.touched })
    }
  })
}

async function setUp(line, variant) {
  const hello = readHello(line)
  const shared = {}
  const opened = Array.from({ length: hello.connections }, () => connect(hello, variant.redisOptions, current))
  if (!hello.cold) await Promise.all(opened.map(({ ready }) => ready))
  const here = { hello, shared, call: () => current.getStore(), options: variant.options }
  return Promise.all(opened.map(({ client }) => variant.lane(client, here)))
}

async function main(words) {
  if (words.length === 1 && words[0] === '--list') {
    process.stdout.write(available().join('\n') + '\n')
    return 0
  }
  const variant = choose(words)
  if (!variant) {
    console.error(`adapter: no such variant: ${words.join(' ')}; --list names them`)
    return 2
  }
  const lines = createInterface({ input: process.stdin, crlfDelay: Infinity })[Symbol.asyncIterator]()
  let lanes
  try {
    lanes = await setUp((await lines.next()).value ?? '', variant)
  } catch (error) {
    say({ ready: false, error: error.message })
    return 2
  }
  say({ ready: true, name: variant.package, version: variant.version, capabilities: [], now_us: Date.now() * 1000 })
  const open = new Set()
  for await (const line of lines) {
    let request
    try {
      request = JSON.parse(line)
    } catch {
      request = null
    }
    if (!Number.isInteger(request?.id)) {
      console.error(`adapter: no request: ${line.slice(0, 200)}`)
      return 2
    }
    const served = serveOne(request, lanes, variant)
    open.add(served)
    served.finally(() => open.delete(served))
  }
  await Promise.all(open)
  return 0
}

const code = await main(process.argv.slice(2))
process.stdout.write('', () => process.exit(code))
