/* The WebSocket servers of /api/init, as bytes in the program. */
    .section .rodata
    .global servers_javascript
    .global servers_python
servers_javascript:
    .incbin "emulator/objects/servers/websocket.js"
    .byte 0
servers_python:
    .incbin "emulator/objects/servers/websocket.py"
    .byte 0
    .section .note.GNU-stack, "", %progbits
