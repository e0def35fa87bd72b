-- KEYS[1] the counter · ARGV[1] cost · ARGV[2] window in ms
-- Returns the count after this call and the milliseconds the window has left.
local count = redis.call('INCRBY', KEYS[1], ARGV[1])
if count == tonumber(ARGV[1]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {count, redis.call('PTTL', KEYS[1])}
