-- A counter for each aligned window.
-- KEYS[1]: the caller. ARGV: limit, window in seconds.
-- Answers allowed, limit, remaining, retry after (ms), reset after (ms).

local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local index = math.floor(now / window)
local reset = math.ceil(((index + 1) * window - now) / 1000)

local stored = redis.call('HMGET', KEYS[1], 'window', 'count')
local count = 0
if stored[1] and tonumber(stored[1]) == index then
  count = tonumber(stored[2])
end
if count >= limit then
  return {0, limit, 0, reset, reset}
end

redis.call('HSET', KEYS[1], 'window', index, 'count', count + 1)
-- A key lives a millisecond longer than its use: some servers drop one at once if its last millisecond has begun.
redis.call('PEXPIRE', KEYS[1], reset + 1)
return {1, limit, limit - count - 1, 0, reset}
