-- Takes a batch out of a window, never more than is left of it.
-- KEYS[1]: the counter. ARGV: how much is wanted, the limit, the window in ms, when it gets its expiry.
-- Answers {how much was taken, how many ms the window has left; below 0 if the key never expires or is not there}.
local wanted = tonumber(ARGV[1])
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
local taken = math.max(0, math.min(wanted, tonumber(ARGV[2]) - used))
if taken > 0 then
  local count = redis.call('INCRBY', KEYS[1], taken)
  if ARGV[4] == 'first' then
    -- What was cut is not what was wanted: then nobody sets it.
    if count == wanted then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
  elseif redis.call('PTTL', KEYS[1]) < 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
  end
end
return {taken, redis.call('PTTL', KEYS[1])}
