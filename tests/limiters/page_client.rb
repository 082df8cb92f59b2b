# frozen_string_literal: true

# Drives the Ruby client of docs/from-redis.md: `ruby run.rb '{"port":…,"pid":…,"silent":…,"calls":[…]}'`.

require "json"
require_relative "limiter"

plan = JSON.parse(ARGV.first)
limiter = Limiter.new("redis://127.0.0.1:#{plan["port"]}", 5)
answers = plan["calls"].map { |key, limit, window| limiter.check(key, limit, window) }
Process.kill("KILL", plan["pid"])
answers << limiter.check(*plan["calls"].first)
begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
silent = Limiter.new("redis://127.0.0.1:#{plan["silent"]}").check(*plan["calls"].first)
seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun
puts JSON.generate(answers: answers, silent: silent, silent_seconds: seconds)
