/* The runtime's executable, carried inside ours: PID 1 of every container is started from a copy in
 * a sealed memfd, so there is no second file to install or to find. */
    .section .rodata
    .globl runtime_blob_start
    .globl runtime_blob_end
    .balign 16
runtime_blob_start:
    .incbin RUNTIME_PATH
runtime_blob_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
