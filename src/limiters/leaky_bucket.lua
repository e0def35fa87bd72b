-- KEYS[1] a hash: parts (how full the bucket is), at (ms up to which it has leaked)
-- ARGV[1] capacity · ARGV[2] leak per window · ARGV[3] window in ms · ARGV[4] cost · ARGV[5] now in
-- ms, '' for TIME · ARGV[6] how much longer than its state the key is kept, in ms. One call is `window` parts and a millisecond leaks `leak` parts: whole numbers.
-- Returns {allowed, remaining, wait in ms; -1 for never}.
local capacity, leak, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local poured = tonumber(ARGV[4]) * window
local now
if ARGV[5] == '' then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
else
  now = tonumber(ARGV[5])
end
local brim = capacity * window
local state = redis.call('HMGET', KEYS[1], 'parts', 'at')
local parts, at = tonumber(state[1]) or 0, tonumber(state[2]) or now
if now > at then
  parts = math.max(0, parts - (now - at) * leak)
  at = now
end
local allowed, wait = 0, 0
if parts + poured <= brim then
  allowed = 1
  parts = parts + poured
elseif poured > brim then
  wait = -1
else
  wait = math.ceil((parts + poured - brim) / leak)
end
redis.call('HSET', KEYS[1], 'parts', string.format('%.0f', parts), 'at', string.format('%.0f', at))
redis.call('PEXPIRE', KEYS[1], math.max(1, math.ceil(parts / leak) + tonumber(ARGV[6])))
return {allowed, math.floor((brim - parts) / window), wait}
