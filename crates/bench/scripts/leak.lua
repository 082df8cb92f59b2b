-- A leaky bucket as a queue: says how long an admitted call must be held until it is its turn.
-- It keeps the level in whole numbers: a unit is as many parts as the window has microseconds, and `count` parts leave
-- in each of them.
-- KEYS[1]: the caller. ARGV: capacity, count, window in seconds (count units leave in a window).
-- Answers allowed, limit, remaining, hold or retry after (ms), reset after (ms).

local capacity, count, unit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]) * 1000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local stored = redis.call('HMGET', KEYS[1], 'level', 'at')
local level = 0
if stored[1] then
  level = math.max(0, tonumber(stored[1]) - (now - tonumber(stored[2])) * count)
end

local function milliseconds(parts)
  return math.ceil(math.ceil(parts / count) / 1000)
end

if level + unit > capacity * unit then
  return {0, capacity, 0, milliseconds(level + unit - capacity * unit), milliseconds(level)}
end

local hold = milliseconds(level)
level = level + unit
local reset = milliseconds(level)
redis.call('HSET', KEYS[1], 'level', level, 'at', now)
-- A key lives a millisecond longer than its use: some servers drop one at once if its last millisecond has begun.
redis.call('PEXPIRE', KEYS[1], reset + 1)
return {1, capacity, math.floor((capacity * unit - level) / unit), hold, reset}
