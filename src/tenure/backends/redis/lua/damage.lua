-- What is wrong with the keys that are not leases. Changes nothing.
-- KEYS: the names of all leases, the two histories, what is known about this server.
-- Returns whether the names are a set, and how many of the first thousand are too long; of each history its
-- lines, or 0 if it is not a list; of the server the fields with impossible values, or 0 if it is not a hash.
local now = time_now()

local names = ask('SSCAN', KEYS[1], '0', 'COUNT', 1000)
local long = 0
for _, name in ipairs(names and names[2] or {}) do
    if #name > LONGEST then
        long = long + 1
    end
end

local function lines_of(history)
    local lines = ask('LRANGE', history, 0, 999)
    for i, line in ipairs(lines or {}) do
        lines[i] = #line <= 10 * LONGEST and line or ''
    end
    return lines or 0
end

local server = 0
local noted = ask('HMGET', KEYS[4], 'run', 'since', 'term')
if noted then
    local run, since, term = unpack(noted)
    server = {}
    local function tell(field, value)
        server[#server + 1] = field
        server[#server + 1] = string.sub(value, 1, LONGEST)
    end
    if run and not string.find(run, '^%w+$') then
        tell('run', run)
    end
    if since and not number(since) then
        tell('since', since)
    end
    if term and term_of(term, now) ~= number(term) then
        tell('term', term)
    end
end
return { names and 1 or 0, long, lines_of(KEYS[2]), lines_of(KEYS[3]), server }
