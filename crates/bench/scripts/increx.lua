-- INCREX for servers that have none: a counter with an upper bound whose expiry is set by the first call.
-- KEYS[1]: the counter. ARGV: bound, expiry in milliseconds.
-- Answers the value and what was added: 0 if the bound refused it.

local value = tonumber(redis.call('GET', KEYS[1]) or 0)
if value >= tonumber(ARGV[1]) then
  return {value, 0}
end
value = redis.call('INCR', KEYS[1])
if value == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {value, 1}
