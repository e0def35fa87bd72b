// An ioredis client that notes, for each call, what was written to its connection, and what its errors mean.
//
// ioredis queues, sends again after a reconnect and gives up by itself, so an error alone does not
// tell whether an earlier attempt reached the store.

import { Redis } from 'ioredis'

const CHANGES_NOTHING = new Set(['get', 'pttl', 'scan', 'script'])

export const newCall = () => ({
  sends: 0,
  writes: 0, // sent and not refused
  queued: false,
  get touched() {
    return this.sends > 0 || this.queued
  },
})

// The options that ioredis needs to fail within a bounded time.
export const FAIL_FAST = { enableOfflineQueue: false, commandTimeout: 250, maxRetriesPerRequest: 1 }

export function connect(hello, options, current) {
  const owners = new WeakMap()
  const flushes = new WeakSet()

  class Noted extends Redis {
    sendCommand(command, stream) {
      // What a first call sets off to connect is not a part of that call.
      if (this.status === 'wait') current.exit(() => this.connect().catch(() => {}))
      const call = owners.get(command) ?? current.getStore()
      if (call) owners.set(command, call)
      const result = super.sendCommand(command, stream)
      if (!call) return result
      if (this.commandQueue.peekBack()?.command === command) {
        // What a pipeline or a transaction holds goes out at once.
        if (!stream || !flushes.has(stream)) call.sends += 1
        if (stream) flushes.add(stream)
        if (!CHANGES_NOTHING.has(command.name.toLowerCase())) {
          call.writes += 1
          command.promise.catch((error) => {
            if (error.name === 'ReplyError') call.writes -= 1
          })
        }
      } else if (this.offlineQueue.peekBack()?.command === command) {
        call.queued = true
        command.promise.catch((error) => {
          if (!timedOut(error)) call.queued = false // taken out of the queue, unsent
        })
      }
      return result
    }
  }

  const client = new Noted(hello.redis, {
    ...options,
    lazyConnect: hello.cold && options.enableOfflineQueue !== false,
  })
  const ready = new Promise((resolve, reject) => {
    client.once('ready', resolve)
    client.once('error', reject)
  })
  ready.catch(() => {}) // who starts cold does not wait for it
  client.on('error', (error) => console.error(`ioredis: ${error.message}`))
  return { client, ready }
}

const timedOut = (error) => error?.message === 'Command timed out'

export function kindOf(error, call) {
  // An error reply says that its own command was not applied; of those before it, it says nothing.
  if (error?.name === 'ReplyError') {
    return call.writes === 0 || error.message.startsWith('EXECABORT') ? 'refused' : 'no-answer'
  }
  const ofTheConnection =
    timedOut(error) ||
    error?.code?.startsWith?.('E') ||
    ['AbortError', 'MaxRetriesPerRequestError'].includes(error?.name) ||
    /Connection is closed|isn't writeable|max retries per request/.test(error?.message)
  if (!ofTheConnection) return 'unexpected'
  return call.touched ? 'no-answer' : 'not-connected'
}
