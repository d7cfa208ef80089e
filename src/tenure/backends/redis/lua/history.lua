-- The lines of a history, without those that are too long to be ours. KEYS: the history. ARGV: how many.
local lines = {}
for _, line in ipairs(ask('LRANGE', KEYS[1], 0, ARGV[1] - 1) or {}) do
    if #line <= 10 * LONGEST then
        lines[#lines + 1] = line
    end
end
return lines
