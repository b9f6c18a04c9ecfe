"""Turns text into token ids for cpfeed: python -c CODE TOKENIZER_JSON.

Standard input and output are one socket. All integers are little-endian.

At the start, and as the answer to each request, the process sends
  uint8 0, then what is asked for; or
  uint8 1, or 2 where Python lacks what this needs, then uint64 size, a UTF-8
  text that says what went wrong.
At the start that is uint64 size of the vocabulary. A request is
  uint32 number of texts, then of each: uint64 size, its bytes
and its answer
  of each text: uint64 number of ids, its ids as uint32.
The process ends when its input does.
"""

import array
import signal
import struct
import sys


def read(size):
    data = sys.stdin.buffer.read(size)
    if len(data) < size:
        raise EOFError
    return data


def send_error(text, code=1):
    data = text.encode("utf-8", errors="replace")
    sys.stdout.buffer.write(struct.pack("<BQ", code, len(data)) + data)
    sys.stdout.buffer.flush()


def answer(tokenizer):
    count, = struct.unpack("<I", read(4))
    texts = []
    for _ in range(count):
        size, = struct.unpack("<Q", read(8))
        texts.append(read(size).decode("utf-8", errors="replace"))
    # Special tokens are the packer's: it adds the end token itself.
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    parts = [b"\0"]
    for encoding in encoded:
        ids = array.array("I", encoding.ids)
        if sys.byteorder != "little":
            ids.byteswap()
        parts += [struct.pack("<Q", len(ids)), ids.tobytes()]
    return b"".join(parts)


def main():
    # Ctrl-C is for the process that reads from this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        import tokenizers
    except ImportError as error:
        send_error(f"{sys.executable} cannot import tokenizers ({error}); run "
                   "tools/setup --python, or name another Python", code=2)
        return
    try:
        tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
        size = tokenizer.get_vocab_size(with_added_tokens=True)
    except Exception as error:  # Of whatever kind: it is to be reported.
        send_error(str(error))
        return
    sys.stdout.buffer.write(struct.pack("<BQ", 0, size))
    sys.stdout.buffer.flush()
    while True:
        try:
            data = answer(tokenizer)
        except EOFError:
            return
        except Exception as error:
            send_error(f"{type(error).__name__}: {error}")
            return
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
