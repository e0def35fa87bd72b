-- KEYS[1] the counter of this period · KEYS[2] a hash: the limit of each tier
-- ARGV[1] cost · ARGV[2] how long the counter is kept, in ms · ARGV[3] tier · ARGV[4] the limit where
-- the hash has none
-- Returns {allowed, remaining, limit}.
local cost = tonumber(ARGV[1])
local limit = tonumber(redis.call('HGET', KEYS[2], ARGV[3]) or ARGV[4])
if not limit or limit < 1 or limit % 1 ~= 0 then
  return redis.error_reply('ERR the limit of ' .. ARGV[3] .. ' in ' .. KEYS[2] .. ' is not a whole number from 1')
end
local count = tonumber(redis.call('GET', KEYS[1])) or 0
if count + cost > limit then
  return {0, math.max(0, limit - count), limit}
end
redis.call('INCRBY', KEYS[1], cost)
if redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, limit - count - cost, limit}
