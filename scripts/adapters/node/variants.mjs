// One entry for each limiter: how its README says to use it.
//
// `lane` is called once for each connection and gives a function that decides: (key, cost) → the fields of
// an answer that the library itself tells. Errors of the library are let through.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { FAIL_FAST } from './wire.mjs'

const installed = (name) => new URL(`./node_modules/${name}/package.json`, import.meta.url)

// -------------------------------------------------------------------- rate-limiter-flexible

const flexible = (className) => async (client, { hello, shared, call, options }) => {
  const library = (await import('rate-limiter-flexible')).default
  const rule = { points: hello.limit, duration: hello.seconds }
  class Insurance extends library.RateLimiterMemory {
    consume(...words) {
      call().source = 'fallback'
      return super.consume(...words)
    }
  }
  if (options.has('--insurance')) shared.insurance ??= new Insurance(rule)
  const limiter = new library[className]({ storeClient: client, insuranceLimiter: shared.insurance, ...rule })
  return async (key, cost) => {
    try {
      const told = await limiter.consume(key, cost)
      return { allowed: true, remaining: told.remainingPoints, reset_ms: told.msBeforeNext }
    } catch (told) {
      if (!(told instanceof library.RateLimiterRes)) throw told
      return { allowed: false, remaining: told.remainingPoints, retry_after_ms: told.msBeforeNext }
    }
  }
}

// ----------------------------------------------------------------------------- sorted sets

const ratelimiter = async (client, { hello }) => {
  const { default: Limiter } = await import('ratelimiter')
  return (id) =>
    new Promise((resolve, reject) => {
      new Limiter({ id, db: client, max: hello.limit, duration: hello.windowMs }).get((error, told) => {
        if (error) return reject(error)
        if (told.remaining) return resolve({ allowed: true, remaining: told.remaining - 1 })
        resolve({ allowed: false, remaining: 0, retry_after_ms: told.resetMs - Date.now() })
      })
    })
}

const asyncRatelimiter = async (client, { hello }) => {
  const { default: Limiter } = await import('async-ratelimiter')
  const limiter = new Limiter({ db: client, max: hello.limit, duration: hello.windowMs })
  return async (id) => {
    const told = await limiter.get({ id })
    if (told.remaining) return { allowed: true, remaining: told.remaining - 1 }
    return { allowed: false, remaining: 0, retry_after_ms: told.reset * 1000 - Date.now() }
  }
}

const rolling = async (client, { hello }) => {
  const { RedisRateLimiter } = (await import('rolling-rate-limiter')).default
  const limiter = new RedisRateLimiter({
    client,
    namespace: 'rolling:',
    interval: hello.windowMs,
    maxInInterval: hello.limit,
  })
  return async (id) => {
    const told = await limiter.limitWithInfo(id)
    if (!told.blocked) return { allowed: true, remaining: told.actionsRemaining }
    return { allowed: false, remaining: told.actionsRemaining, retry_after_ms: told.millisecondsUntilAllowed }
  }
}

// --------------------------------------------------------------------------------- upstash

// The library wants a client whose eval takes lists. Its scripts open with a flag that only its own
// service knows; elsewhere the server refuses them, so that line is left out and the script kept
// under the digest that the library asks for.
const listed = (client) => {
  const digest = (text) => createHash('sha1').update(text).digest('hex')
  const known = new Map()
  return {
    evalsha(sha, keys, words) {
      if (!known.has(sha)) throw new Error('NOSCRIPT not seen yet')
      return client.evalsha(known.get(sha), keys.length, ...keys, ...words)
    },
    eval(script, keys, words) {
      const plain = script.replace(/^#!lua flags=allow-key-locking\n/, '')
      known.set(digest(script), digest(plain))
      return client.eval(plain, keys.length, ...keys, ...words)
    },
  }
}

const upstash = (name, rule) => async (client, { hello, shared }) => {
  const { Ratelimit } = await import(name)
  shared.cache ??= new Map()
  const limiter = new Ratelimit({
    redis: listed(client),
    limiter: rule(Ratelimit, hello.limit, `${hello.windowMs} ms`),
    ephemeralCache: shared.cache,
  })
  return async (key, cost) => {
    const told = await limiter.limit(key, cost === 1 ? undefined : { rate: cost })
    // A store that has not answered within five seconds counts as a yes, told by empty numbers.
    if (told.success && told.limit === 0) return { allowed: true, source: 'fail-open' }
    const wait = told.reset - Date.now()
    return { allowed: told.success, remaining: told.remaining, [told.success ? 'reset_ms' : 'retry_after_ms']: wait }
  }
}

const UPSTASH_RULES = {
  'fixed-window': (Ratelimit, limit, window) => Ratelimit.fixedWindow(limit, window),
  'sliding-window': (Ratelimit, limit, window) => Ratelimit.slidingWindow(limit, window),
  'token-bucket': (Ratelimit, limit, window) => Ratelimit.tokenBucket(limit, window, limit),
}

// ------------------------------------------- stores that a framework's guard or middleware asks

const storeOfExpress = (name) => async (client, { hello }) => {
  const { default: RedisStore } = await import(name)
  const store = new RedisStore({ sendCommand: (...words) => client.call(...words) })
  const loaded = store.init({ windowMs: hello.windowMs })
  // The middleware logs a failure here and goes on.
  loaded?.catch((error) => console.error(`rate-limit-redis: ${error.message}`))
  if (!hello.cold) await loaded
  return async (key) => {
    const { totalHits, resetTime } = await store.increment(key)
    const wait = resetTime - Date.now()
    if (totalHits > hello.limit) return { allowed: false, remaining: 0, retry_after_ms: wait }
    return { allowed: true, remaining: hello.limit - totalHits, reset_ms: wait }
  }
}

const storeOfNest = async (client, { hello }) => {
  await import('reflect-metadata')
  const { ThrottlerStorageRedisService } = await import('@nest-lab/throttler-storage-redis')
  const storage = new ThrottlerStorageRedisService(client)
  return async (caller) => {
    const key = createHash('sha256').update(`Calls-call-default-${caller}`).digest('hex')
    const told = await storage.increment(key, hello.windowMs, hello.limit, hello.windowMs, 'default')
    if (told.isBlocked) return { allowed: false, retry_after_ms: told.timeToBlockExpire * 1000 }
    return {
      allowed: true,
      remaining: Math.max(0, hello.limit - told.totalHits),
      reset_ms: told.timeToExpire * 1000,
    }
  }
}

const oldStoreOfNest = async (client, { hello }) => {
  await import('reflect-metadata')
  const { ThrottlerStorageRedisService } = (await import('nestjs-throttler-storage-redis')).default
  const storage = new ThrottlerStorageRedisService(client)
  const { limit, seconds } = hello
  return async (caller) => {
    const key = createHash('md5').update(`Calls-call-${caller}`).digest('hex')
    const expiries = await storage.getRecord(key)
    const nearest = expiries.length > 0 ? Math.ceil((expiries[0] - Date.now()) / 1000) : 0
    if (expiries.length >= limit) return { allowed: false, retry_after_ms: nearest * 1000 }
    await storage.addRecord(key, seconds)
    return { allowed: true, remaining: Math.max(0, limit - (expiries.length + 1)) }
  }
}

// ----------------------------------------------------------------------------------- names

const costs = true
const VARIANTS = {
  'rate-limiter-flexible': { package: 'rate-limiter-flexible', lane: flexible('RateLimiterRedis'), costs },
  'rate-limiter-flexible-non-atomic': {
    package: 'rate-limiter-flexible',
    lane: flexible('RateLimiterRedisNonAtomic'),
    costs,
  },
  ratelimiter: { package: 'ratelimiter', lane: ratelimiter },
  'async-ratelimiter': { package: 'async-ratelimiter', lane: asyncRatelimiter },
  'rolling-rate-limiter': { package: 'rolling-rate-limiter', lane: rolling },
  'rate-limit-redis': { package: 'rate-limit-redis', lane: storeOfExpress('rate-limit-redis') },
  'rate-limit-redis-4': { package: 'rate-limit-redis-4', lane: storeOfExpress('rate-limit-redis-4') },
  'rate-limit-redis-3': { package: 'rate-limit-redis-3', lane: storeOfExpress('rate-limit-redis-3') },
  'nest-lab-throttler': { package: '@nest-lab/throttler-storage-redis', lane: storeOfNest },
  'nestjs-throttler-old': { package: 'nestjs-throttler-storage-redis', lane: oldStoreOfNest },
}
for (const [name, rule] of Object.entries(UPSTASH_RULES)) {
  VARIANTS[`upstash-${name}`] = { package: '@upstash/ratelimit', lane: upstash('@upstash/ratelimit', rule), costs }
  VARIANTS[`upstash-1-${name}`] = { package: '@upstash/ratelimit-1', lane: upstash('@upstash/ratelimit-1', rule), costs }
}

const WITH_OPTIONS = ['--insurance', '--fail-fast', '--insurance --fail-fast'].map((o) => `rate-limiter-flexible ${o}`)

export const available = () => [...Object.keys(VARIANTS), ...WITH_OPTIONS]

// Every variant knows --fail-fast, and rate-limiter-flexible's know --insurance.
export function choose([name, ...words]) {
  const found = Object.hasOwn(VARIANTS, name ?? '') ? VARIANTS[name] : undefined
  const fits = (word) =>
    word === '--fail-fast' || (word === '--insurance' && found?.package === 'rate-limiter-flexible')
  if (!found || !words.every(fits)) return undefined
  const about = JSON.parse(readFileSync(installed(found.package), 'utf8'))
  return {
    package: about.name,
    version: about.version,
    lane: found.lane,
    knowsCost: found.costs === true,
    options: new Set(words),
    redisOptions: words.includes('--fail-fast') ? FAIL_FAST : {},
  }
}
