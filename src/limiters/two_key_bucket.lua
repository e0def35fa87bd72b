-- KEYS[1] the tokens in the bucket, in parts · KEYS[2] the ms up to which it is filled
-- ARGV[1] capacity · ARGV[2] refill per window · ARGV[3] window in ms · ARGV[4] cost
-- ARGV[5] now in ms, '' for TIME · ARGV[6] how much longer than its state the keys are kept, in ms
-- One token is `window` parts and a millisecond adds `refill` parts: whole numbers throughout.
-- Returns {allowed, remaining, wait in ms; -1 for never, ms until the bucket is full}.
local capacity, refill, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local wanted = tonumber(ARGV[4]) * window
local now
if ARGV[5] == '' then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
else
  now = tonumber(ARGV[5])
end
local full = capacity * window
local parts = tonumber(redis.call('GET', KEYS[1])) or full
local at = tonumber(redis.call('GET', KEYS[2])) or now
if now > at then
  parts = math.min(full, parts + (now - at) * refill)
  at = now
end
local allowed, wait = 0, 0
if parts >= wanted then
  allowed = 1
  parts = parts - wanted
elseif wanted > full then
  wait = -1
else
  wait = math.ceil((wanted - parts) / refill)
end
local reset = math.ceil((full - parts) / refill)
local kept = math.max(1, reset + tonumber(ARGV[6]))
redis.call('SET', KEYS[1], string.format('%.0f', parts), 'PX', kept)
redis.call('SET', KEYS[2], string.format('%.0f', at), 'PX', kept)
return {allowed, math.floor(parts / window), wait, reset}
