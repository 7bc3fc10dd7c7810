"""Programs as text that people read and write.

    program all-sum
    length 4
    round "add what the node across edge 1 has"
      other <- x of i xor 1
      x = x + other
    round "add what the node across edge 2 has"
      other <- x of i xor 2
      x = x + other

`printing` writes the fields of a program and `parsing` reads them. Nothing in a text is ever executed: functions are
looked up in a table of names (`vocabulary`).
"""
