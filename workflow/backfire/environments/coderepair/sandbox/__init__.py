"""Running a program that nobody vouches for.

`probe` decides once which cage this system offers, `cage` says what a cage consists of,
`run` runs one program in it and hears what it sends, `child` is the far side, inside, and
`seccomp` compiles the filter of system calls.
"""
