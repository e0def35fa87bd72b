-- KEYS[1] a hash: parts (what is in the bucket), at (ms up to which it is filled)
-- ARGV[1] capacity · ARGV[2] refill per window · ARGV[3] window in ms · ARGV[4] cost
-- ARGV[5] now in ms, '' for TIME · ARGV[6] how much longer than its state the key is kept, in ms
-- One token is `window` parts and a millisecond adds `refill` parts: whole numbers throughout.
-- Returns {allowed, remaining, wait in ms; -1 for never}.
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
local state = redis.call('HMGET', KEYS[1], 'parts', 'at')
local parts, at = tonumber(state[1]) or full, tonumber(state[2]) or now
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
redis.call('HSET', KEYS[1], 'parts', string.format('%.0f', parts), 'at', string.format('%.0f', at))
redis.call('PEXPIRE', KEYS[1], math.max(1, math.ceil((full - parts) / refill) + tonumber(ARGV[6])))
return {allowed, math.floor(parts / window), wait}
