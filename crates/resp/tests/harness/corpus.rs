//! Inputs to start from: one for each thing that the parser knows.

/// Seeds of the fuzzing and of the test of all split points.
pub const CORPUS: &[&[u8]] = &[
    b"",
    b"*1\r\n$4\r\nPING\r\n",
    b"*4\r\n$8\r\nRL.SLIDE\r\n$17\r\nrl:{ak_42}:orders\r\n$3\r\n100\r\n$1\r\n1\r\n",
    b"*6\r\n$8\r\nRL.TOKEN\r\n$1\r\nk\r\n$2\r\n20\r\n$2\r\n10\r\n$4\r\nCOST\r\n$2\r\n16\r\n*1\r\n$7\r\nPARTIAL\r\n",
    b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\r\n\r\n",
    b"*0\r\n*-1\r\n*-5\r\n*1\r\n$4\r\nPING\r\n\r\n\n",
    b"*10\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n$1\r\n6\r\n$1\r\n7\r\n$1\r\n8\r\n\
      $1\r\n9\r\n",
    b"*11\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n$1\r\n6\r\n$1\r\n7\r\n$1\r\n8\r\n\
      $1\r\n9\r\n$1\r\nx\r\n",
    b"*2\r\n$3\r\nGET\r\n$120\r\n0123456789012345678901234567890123456789012345678901234567890123456789012345678\
      901234567890123456789012345678901234567890123456789\r\n",
    b"*3\r\n$3\r\nGET\r\n$20\r\n01234567890123456789\r\n$20\r\n01234567890123456789\r\n\
      *4\r\n$20\r\n01234567890123456789\r\n$20\r\n01234567890123456789\r\n$20\r\n01234567890123456789\r\n\
      $20\r\n01234567890123456789\r\n",
    b"*1\r\n*1\r\n*1\r\n$1\r\na\r\n",
    b"*2\r\n$3\r\nGET\r\n:12\r\n",
    b"*03\r\n$3\r\nGET\r\n",
    b"*1\r\n$04\r\nPING\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$4\r\nPINGPONG\r\n",
    b"*1\r\n$4\nPING\r\n",
    b"*1\rx$4\r\nPING\r\n",
    b"*99999999999999999999\r\n",
    b"*2147483648\r\n",
    b"*1111111111111111111111111111111111111111",
    b"*1\r\n$1111111111111111111111111111111111111111",
    b"*1000000\r\n$1\r\na\r\n",
    b"*2\r\n$4\r\nPING\r\n$536870912\r\nabc",
    b"*2\r\n$4\r\nPING\r\n$536870913\r\nabc",
    b"PING\r\n",
    b"PING\nRL.SLIDE k 100 1\nQUIT\r\n",
    b"  SET  k\tv  \r\n   \r\n\n",
    b"SET \"a key\" 'it\\'s' \"\\x41\\n\\r\\t\\b\\a\\\\\\\"\\q\\x4\"\r\nGET k\"e\"\r\n",
    b"SET \"open\r\nPING\r\n",
    b"SET 'open\r\n",
    b"SET \"a\"b\r\n",
    b"ECHO \"\" ''\r\n",
    b"0123456789012345678901234567890123456789\r\n",
    b"012345678901234567890123456789012345678\r\nPING\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET key\r\nGET key HTTP\r\n",
    b"POST /x HTTP/1.1\r\n\r\n",
    b"host: localhost\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n",
    b"a b c d e f g h i j k l\r\n",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaa b\r\n",
    b"\0*1\r\n$4\r\nPING\r\n\n",
];
