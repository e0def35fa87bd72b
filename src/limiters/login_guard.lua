-- KEYS[1] failures of the account · KEYS[2] its lock · KEYS[3] failures from the address
-- ARGV[1] cost · ARGV[2] limit of the account · ARGV[3] its window in ms · ARGV[4] lockout in ms
-- ARGV[5] limit of the address · ARGV[6] its window in ms
-- Returns {admitted, remaining, wait in ms; -1 for never,
--          stage: 0 nothing more, 1 captcha, 2 delay, 3 lockout}.
local cost, limit, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5])
local failed = tonumber(redis.call('GET', KEYS[1])) or 0
local lock = redis.call('PTTL', KEYS[2])
local of_account = lock == -2 and limit - failed or 0
local of_address = most - (tonumber(redis.call('GET', KEYS[3])) or 0)
local left = math.max(0, math.min(of_account, of_address))
if cost > left then
  -- Nothing is written: who tries while locked out stays locked out no longer.
  local wait = 0
  if cost > of_account then
    wait = math.max(lock, redis.call('PTTL', KEYS[1])) + 1
  end
  if cost > of_address then
    wait = math.max(wait, redis.call('PTTL', KEYS[3]) + 1)
  end
  return {0, left, (cost > limit or cost > most) and -1 or wait, 3}
end
local function count(key, window)
  redis.call('INCRBY', key, cost)
  if redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, window)
  end
end
count(KEYS[1], ARGV[3])
count(KEYS[3], ARGV[6])
if failed + cost >= limit then
  redis.call('SET', KEYS[2], 1, 'PX', ARGV[4])
end
local stage = 0
if failed * 4 >= limit * 3 then
  stage = 2
elseif failed * 2 >= limit then
  stage = 1
end
return {1, left - cost, 0, stage}
