#!/usr/bin/env node
// A small service behind a limiter middleware, for whatever asks over HTTP.
//
//   server.mjs express [--store 4.2.0|3.0.1] [OPTION…]   express-rate-limit with rate-limit-redis
//   server.mjs fastify [OPTION…]                         @fastify/rate-limit
//
//   --draft        the RateLimit-* fields beside (express) or instead of (fastify) X-RateLimit-*
//   --pass-errors  let requests through when the store fails; without it they get a 500
//   --fail-fast    ioredis gives up after 250 ms and queues nothing while it is not connected
//
// From the environment: PORT, REDIS_URL, LIMIT, WINDOW_MS. Callers are known by X-User, else by address.
// Says `listening` on stderr; ends on SIGTERM.

import { Redis } from 'ioredis'
import { FAIL_FAST } from './wire.mjs'

const STORES = {
  '6.0.1': ['rate-limit-redis', 'express-rate-limit'],
  '4.2.0': ['rate-limit-redis-4', 'express-rate-limit'],
  '3.0.1': ['rate-limit-redis-3', 'express-rate-limit-6'],
}

function refuse(text) {
  console.error(`server: ${text}`)
  process.exit(2)
}

function settings(words, environment) {
  const number = (name) => {
    const value = Number(environment[name])
    return Number.isInteger(value) && value >= 1 ? value : refuse(`${name} is to be a whole number from 1`)
  }
  const [framework, ...rest] = words
  if (!Object.hasOwn(SERVERS, framework ?? '')) refuse('say express or fastify')
  const store = rest.includes('--store') ? rest.splice(rest.indexOf('--store'), 2)[1] : '6.0.1'
  if (!Object.hasOwn(STORES, store ?? '')) refuse(`--store is one of ${Object.keys(STORES).join(', ')}`)
  const unknown = rest.find((word) => !['--draft', '--pass-errors', '--fail-fast'].includes(word))
  if (unknown) refuse(`unknown option ${unknown}`)
  return {
    framework,
    store,
    draft: rest.includes('--draft'),
    passErrors: rest.includes('--pass-errors'),
    redisOptions: rest.includes('--fail-fast') ? FAIL_FAST : {},
    redis: environment.REDIS_URL ?? refuse('REDIS_URL is missing'),
    port: number('PORT'),
    limit: number('LIMIT'),
    windowMs: number('WINDOW_MS'),
  }
}

const callerOf = (request) => request.headers['x-user'] ?? request.socket.remoteAddress

async function express(client, { store, draft, passErrors, limit, windowMs, port }) {
  const [storePackage, limiterPackage] = STORES[store]
  const [{ default: create }, { rateLimit }, { default: RedisStore }] = await Promise.all([
    import('express'),
    import(limiterPackage),
    import(storePackage),
  ])
  const app = create()
  app.use(
    rateLimit({
      windowMs,
      [limiterPackage === 'express-rate-limit' ? 'limit' : 'max']: limit,
      ...(draft && { standardHeaders: limiterPackage === 'express-rate-limit' ? 'draft-6' : true }),
      ...(passErrors && { passOnStoreError: true }),
      keyGenerator: callerOf,
      store: new RedisStore({ sendCommand: (...words) => client.call(...words) }),
    }),
  )
  app.use((_request, response) => response.send('ok\n'))
  app.use((error, _request, response, _next) => response.status(500).send(`${error.message}\n`))
  return new Promise((resolve, reject) => {
    const server = app.listen(port, '127.0.0.1', (error) => (error ? reject(error) : resolve(server)))
  })
}

async function fastify(client, { draft, passErrors, limit, windowMs, port }) {
  const [{ default: create }, { default: limiter }] = await Promise.all([
    import('fastify'),
    import('@fastify/rate-limit'),
  ])
  const app = create()
  await app.register(limiter, {
    max: limit,
    timeWindow: windowMs,
    redis: client,
    keyGenerator: callerOf,
    enableDraftSpec: draft,
    skipOnError: passErrors,
  })
  app.get('/*', async () => 'ok\n')
  await app.listen({ port, host: '127.0.0.1' })
  return app.server
}

const SERVERS = { express, fastify }

const chosen = settings(process.argv.slice(2), process.env)
const client = new Redis(chosen.redis, chosen.redisOptions)
client.on('error', (error) => console.error(`ioredis: ${error.message}`))
process.on('SIGTERM', () => process.exit(0))
try {
  await SERVERS[chosen.framework](client, chosen)
  console.error(`listening on http://127.0.0.1:${chosen.port}`)
} catch (error) {
  console.error(`server: ${error.message}`)
  process.exit(1)
}
