-- A fixed window that the first admitted call opens; refused calls cost nothing.
-- One script is one step: no other caller comes between the reading and the writing.
--
-- KEYS[1] the counter · ARGV limit, window in ms, cost
-- Replies { admitted 1 or 0, remaining, ms to wait }. The same in two steps is limiter-read.lua and
-- limiter-write.lua; rl-lab.toml says how to try that.

local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count + cost > limit then
  return { 0, limit - count, redis.call('PTTL', KEYS[1]) }
end
redis.call('INCRBY', KEYS[1], cost)
if redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return { 1, limit - count - cost, 0 }
