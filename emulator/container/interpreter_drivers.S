/* The interpreter's drivers, as bytes in the program. */
    .section .rodata
    .global interpreter_python
    .global interpreter_python_end
    .global interpreter_javascript
    .global interpreter_javascript_end
interpreter_python:
    .incbin "emulator/container/interpreter/python.py"
interpreter_python_end:
    .byte 0
interpreter_javascript:
    .incbin "emulator/container/interpreter/javascript.js"
interpreter_javascript_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
