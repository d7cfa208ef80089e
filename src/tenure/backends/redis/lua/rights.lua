-- Which of these commands the server does not allow the caller. Changes nothing.
-- KEYS: a key of ours. ARGV: JSON, a list of commands with their arguments, each a list; '%key' stands for
-- that key. Returns the numbers of the refused ones, or -1 if this server cannot tell.
if not redis.acl_check_cmd then
    return { -1 }
end
local missing = {}
for number, command in ipairs(cjson.decode(ARGV[1])) do
    for i, word in ipairs(command) do
        command[i] = word == '%key' and KEYS[1] or word
    end
    local known, allowed = pcall(redis.acl_check_cmd, unpack(command))
    if known and not allowed then
        missing[#missing + 1] = number
    end
end
return missing
