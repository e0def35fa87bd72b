-- Wrong on purpose, with limiter-write.lua: it reads the count and decides, and somebody else may do the same
-- before the count is written.
--
-- KEYS[1] the counter · ARGV limit, window in ms, cost

local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count + cost > limit then
  return { 0, math.max(0, limit - count), redis.call('PTTL', KEYS[1]) }
end
return { 1, limit - count - cost, 0 }
