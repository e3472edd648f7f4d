// Registers the codecs that KafkaJS leaves to others; returns all by their Kafka names.
'use strict';

const { CompressionTypes, CompressionCodecs } = require('kafkajs');
const lz4 = require('lz4-napi');
const snappy = require('kafkajs-snappy');
const { ZstdCodec } = require('zstd-codec');

const codec = (compress, decompress) => () => ({
  compress: async (encoder) => Buffer.from(compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(decompress(buffer)),
});

async function register() {
  const zstd = await new Promise((ready) => ZstdCodec.run((module) => ready(new module.Simple())));
  CompressionCodecs[CompressionTypes.Snappy] = snappy;
  CompressionCodecs[CompressionTypes.LZ4] = codec(lz4.compressFrameSync, lz4.decompressFrameSync);
  CompressionCodecs[CompressionTypes.ZSTD] = codec(
    (bytes) => zstd.compress(bytes),
    (bytes) => zstd.decompress(bytes),
  );
  return {
    none: CompressionTypes.None,
    gzip: CompressionTypes.GZIP,
    snappy: CompressionTypes.Snappy,
    lz4: CompressionTypes.LZ4,
    zstd: CompressionTypes.ZSTD,
  };
}

module.exports = { register };
