// Core's HashWriter with a buffer before it, for the interpreter.
//
// A signature hash is written in pieces: 36 bytes, 1 byte, 4 bytes for each input. Core's writer
// hands each piece to SHA-256 by itself, which takes a third of the time of a large legacy hash.
// This one gathers them. What is hashed, and by what, is the same.
#ifndef BLOCKMILL_SCRIPT_HASH_WRITER_H
#define BLOCKMILL_SCRIPT_HASH_WRITER_H

#include <hash.h>
#include <serialize.h>
#include <uint256.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

class BlockmillHashWriter
{
    // Flushing changes nothing that can be seen from outside. A writer that several threads copy
    // has an empty buffer: Core's constants are made from hashes, and nothing is written to them.
    mutable HashWriter m_hash;
    mutable size_t m_gathered{0};
    std::array<std::byte, 1024> m_buffer;

    void Flush() const
    {
        if (m_gathered == 0) return;
        m_hash.write(std::span{m_buffer}.first(m_gathered));
        m_gathered = 0;
    }

public:
    BlockmillHashWriter() {}
    explicit BlockmillHashWriter(const HashWriter& hash) : m_hash{hash} {}

    // A copy has the state and no bytes to gather: they would be hashed for each copy.
    BlockmillHashWriter(const BlockmillHashWriter& other)
    {
        other.Flush();
        m_hash = other.m_hash;
    }

    BlockmillHashWriter& operator=(const BlockmillHashWriter& other)
    {
        other.Flush();
        m_hash = other.m_hash;
        m_gathered = 0;
        return *this;
    }

    void write(std::span<const std::byte> bytes)
    {
        if (bytes.size() > m_buffer.size() - m_gathered) {
            Flush();
            if (bytes.size() > m_buffer.size()) {
                m_hash.write(bytes);
                return;
            }
        }
        if (bytes.empty()) return;
        std::memcpy(m_buffer.data() + m_gathered, bytes.data(), bytes.size());
        m_gathered += bytes.size();
    }

    // Both invalidate this object, as Core's do.
    uint256 GetHash()
    {
        Flush();
        return m_hash.GetHash();
    }

    uint256 GetSHA256()
    {
        Flush();
        return m_hash.GetSHA256();
    }

    template <typename T>
    BlockmillHashWriter& operator<<(const T& object)
    {
        ::Serialize(*this, object);
        return *this;
    }
};

#endif // BLOCKMILL_SCRIPT_HASH_WRITER_H
