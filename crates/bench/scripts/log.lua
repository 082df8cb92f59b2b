-- The exact window: the time of every admitted call, in a sorted set.
-- KEYS[1]: the caller. ARGV: limit, window in seconds.
-- Answers allowed, limit, remaining, retry after (ms), reset after (ms).

local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then
  local oldest = redis.call('ZRANGE', KEYS[1], used - limit, used - limit, 'WITHSCORES')
  local newest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
  local function left(entry)
    return math.ceil((tonumber(entry[2]) + window - now) / 1000)
  end
  return {0, limit, 0, left(oldest), left(newest)}
end

-- Calls of the same microsecond need names of their own. One name is taken twice only if the clock stood still while
-- entries left, which it cannot: entries leave because it moves.
redis.call('ZADD', KEYS[1], now, string.format('%.0f:%d', now, used))
local reset = math.ceil(window / 1000)
-- A key lives a millisecond longer than its use: some servers drop one at once if its last millisecond has begun.
redis.call('PEXPIRE', KEYS[1], reset + 1)
return {1, limit, limit - used - 1, 0, reset}
