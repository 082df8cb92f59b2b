-- A token bucket that keeps what is in use, in whole numbers: a token is as many parts as the window has microseconds,
-- and `count` parts flow back in each of them. So nothing is lost to rounding, however often it is called.
-- KEYS[1]: the caller. ARGV: capacity, count, window in seconds (count tokens come back in a window).
-- Answers allowed, limit, remaining, retry after (ms), reset after (ms).

local capacity, count, token = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]) * 1000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local stored = redis.call('HMGET', KEYS[1], 'used', 'at')
local used = 0
if stored[1] then
  used = math.max(0, tonumber(stored[1]) - (now - tonumber(stored[2])) * count)
end

local function milliseconds(parts)
  return math.ceil(math.ceil(parts / count) / 1000)
end

if used + token > capacity * token then
  return {0, capacity, 0, milliseconds(used + token - capacity * token), milliseconds(used)}
end

used = used + token
local reset = milliseconds(used)
redis.call('HSET', KEYS[1], 'used', used, 'at', now)
-- A key lives a millisecond longer than its use: some servers drop one at once if its last millisecond has begun.
redis.call('PEXPIRE', KEYS[1], reset + 1)
return {1, capacity, math.floor((capacity * token - used) / token), 0, reset}
