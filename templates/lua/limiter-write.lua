-- The second half of limiter-read.lua: counts a call that was admitted.

redis.call('INCRBY', KEYS[1], ARGV[3])
if redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
