-- Dissector of IMPI 0.0 for Wireshark and tshark.
--
-- Use it without installation:   tshark -X lua_script:impi.lua -r job.pcap -Y impi
-- or put it into the folder of personal Lua plugins (Help, About, Folders). The ports of a job are any that were free:
-- where another protocol claims one of them, say -o tcp.try_heuristic_first:TRUE (Preferences, Protocols, TCP).
--
-- Start-up conversations are recognised by their first command, AUTH (IMPI 2.3.3); host channels by the host that
-- accepts them, as the H labels of a start-up seen before tell, else by a host rank and a packet header that make sense
-- (IMPI 2.3.8, 3.5). "Decode As" works too. The value of an authentication key is never put into the tree.

local impi = Proto("impi", "Interoperable MPI")

local COMMANDS = {
  [0x41555448] = "AUTH", [0x494D5049] = "IMPI", [0x434F4C4C] = "COLL", [0x444F4E45] = "DONE", [0x46494E49] = "FINI",
}
local TYPES = {
  [0] = "DATA", [1] = "DATASYNC", [2] = "PROTOACK", [3] = "SYNCACK",
  [4] = "CANCEL", [5] = "CANCELYES", [6] = "CANCELNO", [7] = "FINI",
}
local METHODS = { [0] = "NONE", [1] = "KEY", [31] = "CHALLENGE" }
local HEADER, KEY, PROOFS, MOST_HOSTS, MOST_LENGTH = 128, 8, 64, 0x100000, 0x7fffffff
local NOWHERE = string.rep("00", 16)

-- Fields -------------------------------------------------------------------------------------------------------------

local f = {
  -- IMPI 2.3: commands
  command = ProtoField.uint32("impi.command", "Command", base.HEX, COMMANDS),
  len = ProtoField.int32("impi.len", "Length of the payload"),
  auth_mask = ProtoField.uint32("impi.auth_mask", "Methods offered", base.HEX),
  auth_method = ProtoField.int32("impi.auth_method", "Method chosen", base.DEC, METHODS),
  auth_len = ProtoField.int32("impi.auth_len", "Length of the method's data"),
  auth_data = ProtoField.none("impi.auth_data", "Data of the method (not shown)"),
  auth_key = ProtoField.none("impi.auth_key", "Key (not shown)"),
  rank = ProtoField.int32("impi.rank", "Client's number"),
  size = ProtoField.int32("impi.size", "Number of clients"),
  label = ProtoField.uint32("impi.label", "Label", base.HEX),
  client_mask = ProtoField.uint32("impi.client_mask", "Clients that contributed", base.HEX),
  payload = ProtoField.bytes("impi.payload", "Payload"),
  -- IMPI 2.3.8
  host_rank = ProtoField.int32("impi.host_rank", "Rank of the connecting host"),
  -- IMPI 3.5, in the order of the wire
  pk_type = ProtoField.uint32("impi.pk_type", "Type", base.DEC, TYPES),
  pk_len = ProtoField.uint32("impi.pk_len", "Octets in this packet"),
  src = ProtoField.ipv6("impi.src", "Source address"),
  src_pid = ProtoField.int64("impi.src_pid", "Source pid"),
  dest = ProtoField.ipv6("impi.dest", "Destination address"),
  dest_pid = ProtoField.int64("impi.dest_pid", "Destination pid"),
  srqid = ProtoField.uint64("impi.srqid", "Source request"),
  drqid = ProtoField.uint64("impi.drqid", "Destination request"),
  msglen = ProtoField.uint64("impi.msglen", "Octets in the message"),
  lsrank = ProtoField.int32("impi.lsrank", "Sender's rank in the communicator"),
  tag = ProtoField.int32("impi.tag", "Tag"),
  cid = ProtoField.uint64("impi.cid", "Context"),
  seqnum = ProtoField.uint64("impi.seqnum", "Sequence number"),
  count = ProtoField.int64("impi.count", "Element count"),
  dtype = ProtoField.uint64("impi.dtype", "Datatype handle", base.HEX),
  reserved = ProtoField.uint64("impi.reserved", "Reserved", base.HEX),
  data = ProtoField.bytes("impi.data", "User data"),
  -- told by the labels
  src_rank = ProtoField.int32("impi.src_rank", "Source rank in MPI_COMM_WORLD"),
  dest_rank = ProtoField.int32("impi.dest_rank", "Destination rank in MPI_COMM_WORLD"),
}

-- IMPI 2.3.5: name and type of each label's elements
local LABELS = {
  [0x1000] = { "C_VERSION", "uint32" }, [0x1100] = { "C_NHOSTS", "uint32" }, [0x1200] = { "C_NPROCS", "uint32" },
  [0x1300] = { "C_DATALEN", "uint32" }, [0x1400] = { "C_TAGUB", "int32" }, [0x1500] = { "C_COLL_XSIZE", "int32" },
  [0x1600] = { "C_COLL_MAXLINEAR", "int32" }, [0x2000] = { "H_IPV6", "ipv6" }, [0x2100] = { "H_PORT", "uint32" },
  [0x2200] = { "H_NPROCS", "uint32" }, [0x2300] = { "H_ACKMARK", "uint32" }, [0x2400] = { "H_HIWATER", "uint32" },
  [0x3000] = { "P_IPV6", "ipv6" }, [0x3100] = { "P_PID", "int64" },
}
local WIDTHS = { uint32 = 4, int32 = 4, int64 = 8, ipv6 = 16 }
for _, label in pairs(LABELS) do
  local name, kind = label[1], label[2]
  label.field = ProtoField[kind]("impi." .. name:lower(), name)
  f[name] = label.field
end
impi.fields = f

local wrong = ProtoExpert.new("impi.error", "Breach of the protocol", expert.group.PROTOCOL, expert.severity.ERROR)
impi.experts = { wrong }

-- What is known of each TCP connection -------------------------------------------------------------------------------

-- Fields of TCP cannot be asked for the connection: in a first pass without a tree they have no values.

local live -- by pair of endpoints: the state of the latest connection between them
local frames -- by frame number: the state of its connection
local tried -- by pair: how each direction of a connection began that nobody knows
local hosts -- "address:port" of every host of every job so far
local procs -- "address/pid", both as hex: rank

function impi.init()
  live, frames, tried, hosts, procs = {}, {}, {}, {}, {}
end

local function endpoint(address, port)
  return tostring(address) .. ":" .. tostring(port)
end

-- IMPI 1.2.3: 16 octets, IPv4 embedded as compatible or mapped; :: and ::1 are IPv6.
local function address_of(range)
  local head, tail = range:range(0, 12):bytes():tohex(), range:range(12, 4)
  local embedded = head == string.rep("00", 12) or head == string.rep("00", 10) .. "FFFF"
  if embedded and not (head == string.rep("00", 12) and tail:uint() <= 1) then
    return tostring(tail:ipv4())
  end
  return tostring(range:ipv6())
end

local function split(range, width)
  local parts = {}
  for at = 0, range:len() - width, width do
    parts[#parts + 1] = range:range(at, width)
  end
  return parts
end

-- The server's broadcasts name all hosts and procs in the order of their ranks (IMPI 2.3.5).
local function learn(known, name, range)
  if name == "H_IPV6" or name == "P_IPV6" then
    known[name] = split(range, 16)
    for i, part in ipairs(known[name]) do
      known[name][i] = name == "H_IPV6" and address_of(part) or part:bytes():tohex()
    end
  elseif name == "H_PORT" and known.H_IPV6 then
    for i, part in ipairs(split(range, 4)) do
      hosts[endpoint(known.H_IPV6[i], part:uint())] = true
    end
  elseif name == "P_PID" and known.P_IPV6 then
    for i, part in ipairs(split(range, 8)) do
      procs[tostring(known.P_IPV6[i]) .. "/" .. part:bytes():tohex()] = i - 1
    end
  end
end

-- One part of a stream each: what it needs, and how it is shown ------------------------------------------------------

local function show_key(range, tree)
  tree:add(impi, range, "IMPI key"):add(f.auth_key, range)
  return "key (not shown)"
end

local function show_secret(range, tree)
  tree:add(impi, range, "IMPI, not shown"):add(f.auth_data, range)
  return "octets before IMPI (not shown)"
end

local function add_elements(tree, label, range)
  local known = LABELS[label]
  if known and range:len() % WIDTHS[known[2]] == 0 then
    for _, part in ipairs(split(range, WIDTHS[known[2]])) do
      tree:add(known.field, part)
    end
  else
    tree:add(f.payload, range)
  end
end

local function show_auth(range, tree)
  local subtree = tree:add(impi, range, "IMPI AUTH")
  subtree:add(f.command, range:range(0, 4))
  subtree:add(f.len, range:range(4, 4))
  for at = 8, range:len() - 4, 4 do
    subtree:add(f.auth_mask, range:range(at, 4))
  end
  return "AUTH"
end

local function show_method(range, tree)
  local method = range:range(0, 4):int()
  local subtree = tree:add(impi, range, "IMPI AUTH, the server's choice: " .. (METHODS[method] or method))
  subtree:add(f.auth_method, range:range(0, 4))
  subtree:add(f.auth_len, range:range(4, 4))
  if range:len() > 8 then
    subtree:add(f.auth_data, range:range(8))
  end
  return "AUTH method " .. (METHODS[method] or method)
end

local function show_command(range, tree, state, forth)
  local command, length = range:range(0, 4):uint(), range:len() - 8
  local name = COMMANDS[command] or string.format("0x%08x", command)
  local subtree = tree:add(impi, range, "IMPI " .. name)
  subtree:add(f.command, range:range(0, 4))
  subtree:add(f.len, range:range(4, 4))
  local start = forth and 12 or 16 -- the server's COLL has a client_mask
  if name == "IMPI" and length == 4 then
    subtree:add(forth and f.rank or f.size, range:range(8, 4))
  elseif name == "COLL" and range:len() >= start then
    local label = range:range(8, 4):uint()
    local shown = LABELS[label] and LABELS[label][1] or string.format("0x%04x", label)
    subtree:add(f.label, range:range(8, 4)):append_text(" (" .. shown .. ")")
    if not forth then
      subtree:add(f.client_mask, range:range(12, 4))
    end
    if range:len() > start then
      add_elements(subtree, label, range:range(start))
      if not forth and LABELS[label] then
        learn(state.labels, shown, range:range(start))
      end
    end
    subtree:append_text(" " .. shown)
    name = name .. " " .. shown
  elseif length > 0 then
    subtree:add(f.payload, range:range(8))
  end
  return name
end

local function show_host_rank(range, tree)
  local subtree = tree:add(impi, range, "IMPI host rank " .. range:int())
  subtree:add(f.host_rank, range)
  return "host rank " .. range:int()
end

local function add_rank(tree, field, range)
  local rank = procs[range:range(0, 16):bytes():tohex() .. "/" .. range:range(16, 8):bytes():tohex()]
  if rank then
    tree:add(field, range, rank):set_generated()
  end
  return rank
end

local function show_packet(range, tree)
  local name = TYPES[range:range(0, 4):uint()]
  local subtree = tree:add(impi, range, "IMPI " .. name)
  subtree:add(f.pk_type, range:range(0, 4))
  subtree:add(f.pk_len, range:range(4, 4))
  subtree:add(f.src, range:range(8, 16))
  subtree:add(f.src_pid, range:range(24, 8))
  local from = add_rank(subtree, f.src_rank, range:range(8, 24))
  subtree:add(f.dest, range:range(32, 16))
  subtree:add(f.dest_pid, range:range(48, 8))
  local to = add_rank(subtree, f.dest_rank, range:range(32, 24))
  subtree:add(f.srqid, range:range(56, 8))
  subtree:add(f.drqid, range:range(64, 8))
  subtree:add(f.msglen, range:range(72, 8))
  subtree:add(f.lsrank, range:range(80, 4))
  subtree:add(f.tag, range:range(84, 4))
  subtree:add(f.cid, range:range(88, 8))
  subtree:add(f.seqnum, range:range(96, 8))
  subtree:add(f.count, range:range(104, 8))
  subtree:add(f.dtype, range:range(112, 8))
  subtree:add(f.reserved, range:range(120, 8))
  if range:len() > HEADER then
    subtree:add(f.data, range:range(HEADER))
  end
  local info = name
  if from and to then
    info = info .. " " .. from .. " -> " .. to
  end
  if name == "DATA" or name == "DATASYNC" then
    info = info .. string.format(" tag=%d cid=%s len=%d", range:range(84, 4):int(),
      tostring(range:range(88, 8):uint64()), range:len() - HEADER)
  end
  subtree:append_text(info:sub(#name + 1))
  return info
end

-- How long the next part is, how to show it (nil: more octets are needed to say), and the phase of the stream after
-- it; or no length, and what is wrong. The phases of a client: AUTH, secret, IMPI, commands; of a server: AUTH, commands;
-- of a host that connects: rank, proof (of impi's hosts), packets.

local function command_size(tvb, at)
  if tvb:len() - at < 8 then
    return 8, false
  end
  local length = tvb:range(at + 4, 4):int()
  if length < 0 then
    return nil, "a command of negative length (IMPI 2.3.2)"
  end
  return 8 + length, true
end

local function is_impi(tvb, at)
  return tvb:range(at, 8):bytes():tohex() == "494D504900000004"
end

local function next_of_client(tvb, at, state)
  local phase, left = state.forth, tvb:len() - at
  if phase == "secret" and state.method == 1 then
    return KEY, show_key, "impi"
  elseif (phase == "secret" or phase == "impi") and left < 8 then
    return 8, nil
  elseif phase == "secret" and not state.method and not is_impi(tvb, at) then
    return KEY, show_key, "impi" -- the server's choice was not seen
  elseif (phase == "secret" or phase == "impi") and not is_impi(tvb, at) then
    -- IMPI 2.3.4: IMPI is next. What stands here instead may be a key, sent unasked or for a method of others.
    local size = 1
    while size < left and not (left - size >= 8 and is_impi(tvb, at + size)) do
      size = size + 1
    end
    return size, show_secret, "impi"
  end
  local size, known = command_size(tvb, at)
  if not size then
    return nil, known
  elseif phase == "start" then
    return size, known and show_auth or nil, "secret"
  end
  return size, known and show_command or nil, "commands"
end

local function next_of_server(tvb, at, state)
  local size, known = command_size(tvb, at)
  if not size then
    return nil, known
  elseif state.back ~= "start" then
    return size, known and show_command or nil, "commands"
  elseif known then
    state.method = tvb:range(at, 4):int()
  end
  return size, known and show_method or nil, "commands"
end

local function next_packet(tvb, at, state, forth)
  local left = tvb:len() - at
  local phase = forth and state.forth or state.back
  if forth and phase == "start" then
    return 4, show_host_rank, "proof"
  elseif left < 8 then
    return HEADER, nil
  elseif phase ~= "packets" and tvb:range(at, 4):string() == "IMPI" then
    return PROOFS, show_secret, "packets" -- impi's nonce and proof, of hosts that share a secret
  end
  local kind, length = tvb:range(at, 4):uint(), tvb:range(at + 4, 4):uint()
  if kind > 7 then
    return nil, "packet type " .. kind .. " does not exist (IMPI 3.5)"
  elseif kind > 1 then
    length = 0 -- only DATA and DATASYNC carry octets (IMPI 3.5, table 3.1)
  elseif length > MOST_LENGTH then
    return nil, "a packet of " .. length .. " octets is more than can be put together here"
  end
  return HEADER + length, show_packet, "packets"
end

local function next_part(tvb, at, state, forth)
  if state.kind == "channel" then
    return next_packet(tvb, at, state, forth)
  elseif forth then
    return next_of_client(tvb, at, state)
  end
  return next_of_server(tvb, at, state)
end

-- The dissector proper ------------------------------------------------------------------------------------------------

-- TCP hands over each direction from where the last call left it, so the phase can be kept; a call that comes again,
-- when a frame is looked at again, gets the phase of its first time.
local function resume(state, pinfo, tvb, side)
  local key = pinfo.number .. ":" .. tvb:len()
  if not pinfo.visited then
    state.seen[key] = { phase = state[side], again = state.told == pinfo.number }
  elseif state.seen[key] then
    state[side] = state.seen[key].phase
  end
  return state.seen[key] or {}
end

local function give_up(tvb, at, tree, problem)
  local subtree = tree:add(impi, tvb:range(at), "IMPI: " .. problem)
  subtree:add_proto_expert_info(wrong, problem)
end

local function dissect(tvb, pinfo, tree, state)
  local forth = endpoint(pinfo.src, pinfo.src_port) == state.opener
  local side = forth and "forth" or "back"
  local call, told, at = resume(state, pinfo, tvb, side), {}, 0
  pinfo.cols.protocol = "IMPI"
  while at < tvb:len() and state[side] ~= "broken" do
    local size, show, phase = next_part(tvb, at, state, forth)
    if not size then
      give_up(tvb, at, tree, show)
      told[#told + 1] = "ERROR"
      state[side] = "broken"
    elseif at + size > tvb:len() or not show then
      -- While the size is not known: asking for the header and then for more of the same frame is lost in a second pass.
      pinfo.desegment_offset = at
      pinfo.desegment_len = show and at + size - tvb:len() or DESEGMENT_ONE_MORE_SEGMENT
      break
    else
      told[#told + 1] = show(tvb:range(at, size), tree, state, forth)
      state[side] = phase
      at = at + size
    end
  end
  if #told > 0 then
    state.told = pinfo.number
    pinfo.cols.info = (call.again and ", " or "") .. table.concat(told, ", ")
  end
end

-- Recognition ---------------------------------------------------------------------------------------------------------

local function seems_header(tvb, at)
  if tvb:len() < at + HEADER then
    return false
  end
  local kind = tvb:range(at, 4):uint()
  if kind == 7 then
    return true
  elseif kind > 7 or tvb:range(at + 8, 16):bytes():tohex() == NOWHERE
    or tvb:range(at + 32, 16):bytes():tohex() == NOWHERE then
    return false
  end
  local short = UInt64(tvb:range(at + 4, 4):uint()) <= tvb:range(at + 72, 8):uint64()
  return kind > 1 or (short and tvb:range(at + 84, 4):int() >= 0)
end

local function begin(pair, kind, opener)
  local state = {
    kind = kind, opener = opener, forth = "start", back = "start", seen = {}, told = 0,
    labels = {}, -- of a start-up: those that wait for others
  }
  live[pair] = state
  return state
end

-- Without labels a channel is known by a packet header at its start, after the host rank of the side that connected.
-- The rank mostly comes alone, and four octets may be anything: it is believed when a header follows, and dissected only
-- in a second pass.
local function recognise_by_looks(tvb, pinfo, pair, from, to)
  local began = tried[pair] or {}
  tried[pair] = began
  local first = not began[from]
  began[from] = began[from] or { frame = pinfo.number, length = tvb:len() }
  local rank = first and tvb:len() >= 4 and tvb:range(0, 4):uint() or 0
  if rank > 0 and rank < MOST_HOSTS then
    if seems_header(tvb, 4) then
      return begin(pair, "channel", from)
    end
    began[from].alone = tvb:len() == 4
  end
  local opener
  if began[from].alone then
    opener = not first and seems_header(tvb, 0) and from
  else
    opener = first and seems_header(tvb, 0) and to
  end
  if not opener then
    began[from].alone = first and began[from].alone
    return nil
  end
  local state = begin(pair, "channel", opener)
  local alone = began[opener]
  if alone and alone.alone then
    state.forth = "packets"
    state.seen[alone.frame .. ":" .. alone.length] = { phase = "start" }
    frames[alone.frame] = state
  end
  return state
end

local function recognise(tvb, pinfo, pair)
  local from, to = endpoint(pinfo.src, pinfo.src_port), endpoint(pinfo.dst, pinfo.dst_port)
  if tvb:len() >= 4 and tvb:range(0, 4):string() == "AUTH" then
    return begin(pair, "startup", from)
  elseif hosts[to] then
    return begin(pair, "channel", from)
  elseif hosts[from] then
    return begin(pair, "channel", to)
  end
  return recognise_by_looks(tvb, pinfo, pair, from, to)
end

local function pair_of(pinfo)
  local one, other = endpoint(pinfo.src, pinfo.src_port), endpoint(pinfo.dst, pinfo.dst_port)
  return one < other and one .. "|" .. other or other .. "|" .. one
end

-- TCP asks here for connections that nobody has claimed, so a pair of endpoints that is known already is used anew.
local function heuristic(tvb, pinfo, tree)
  local state, pair = frames[pinfo.number], pair_of(pinfo)
  if not state and not pinfo.visited then
    if live[pair] then
      live[pair], tried[pair] = nil, nil
    end
    state = recognise(tvb, pinfo, pair)
    frames[pinfo.number] = state
  end
  if not state then
    return false
  end
  pinfo.conversation = impi
  dissect(tvb, pinfo, tree, state)
  return true
end

-- TCP calls this for connections that are known, or that somebody wants decoded as this protocol.
function impi.dissector(tvb, pinfo, tree)
  local pair = pair_of(pinfo)
  local state = frames[pinfo.number] or live[pair] or recognise(tvb, pinfo, pair)
  frames[pinfo.number] = state
  if not state then
    return 0
  end
  dissect(tvb, pinfo, tree, state)
  return tvb:len()
end

impi:register_heuristic("tcp", heuristic)
DissectorTable.get("tcp.port"):add_for_decode_as(impi)
