-- KEYS[1] the counter · ARGV[1] cost · ARGV[2] window in s
-- Returns the count after this call and the seconds the window has left, as TTL rounds them.
local count = redis.call('INCRBY', KEYS[1], ARGV[1])
if count == tonumber(ARGV[1]) then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return {count, redis.call('TTL', KEYS[1])}
