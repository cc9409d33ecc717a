/* The start page, as bytes in the program. */
    .section .rodata
    .global control_page_start
    .global control_page_end
control_page_start:
    .incbin "emulator/control/page.html"
control_page_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
