"""Small listings for tests."""

from __future__ import annotations

from collections.abc import Iterable


def cuobjdump(lines: Iterable[str], name: str = "_Z1kPji", arch: str = "sm_90") -> str:
    """Instructions as `cuobjdump --dump-sass` prints them, without encodings; EXIT and a closing loop are added."""
    code = [*lines, "EXIT", f"BRA {16 * (len(list(lines)) + 1):#x}"]
    body = "".join(f"        /*{16 * k:04x}*/                   {text} ;\n" for k, text in enumerate(code))
    return f"\tcode for {arch}\n\t\tFunction : {name}\n{body}\t\t..........\n"


COPY1 = """
Fatbin elf code:
================
arch = sm_90a
code version = [1,8]

	code for sm_90a
		Function : _Z5copy1PKfPfi
	.headerflags	@"EF_CUDA_ACCELERATORS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                  /* 0x00000a00ff017b82 */
                                                                           /* 0x000ff00000000800 */
        /*0010*/                   S2R R0, SR_TID.X ;                      /* 0x0000000000007919 */
                                                                           /* 0x000e2e0000002100 */
        /*0020*/                   S2UR UR4, SR_CTAID.X ;                  /* 0x00000000000479c3 */
                                                                           /* 0x000e300000002500 */
        /*0030*/                   LDC R7, c[0x0][RZ] ;                    /* 0x00000000ff077b82 */
                                                                           /* 0x000e240000000800 */
        /*0040*/                   IMAD R7, R7, UR4, R0 ;                  /* 0x0000000407077c24 */
                                                                           /* 0x001fe2000f8e0200 */
        /*0050*/                   ULDC UR4, c[0x0][0x220] ;               /* 0x0000880000047ab9 */
                                                                           /* 0x000fc80000000800 */
        /*0060*/                   ISETP.GE.AND P0, PT, R7, UR4, PT ;      /* 0x0000000407007c0c */
                                                                           /* 0x000fda000bf06270 */
        /*0070*/               @P0 EXIT ;                                  /* 0x000000000000094d */
                                                                           /* 0x000fea0003800000 */
        /*0080*/                   LDC.64 R2, c[0x0][0x210] ;              /* 0x00008400ff027b82 */
                                                                           /* 0x000e220000000a00 */
        /*0090*/                   ULDC.64 UR4, c[0x0][0x208] ;            /* 0x0000820000047ab9 */
                                                                           /* 0x000fce0000000a00 */
        /*00a0*/                   LDC.64 R4, c[0x0][0x218] ;              /* 0x00008600ff047b82 */
                                                                           /* 0x000e620000000a00 */
        /*00b0*/                   IMAD.WIDE R2, R7, 0x4, R2 ;             /* 0x0000000407027825 */
                                                                           /* 0x001fcc00078e0202 */
        /*00c0*/                   LDG.E R3, desc[UR4][R2.64] ;            /* 0x0000000402037981 */
                                                                           /* 0x000ea2000c1e1900 */
        /*00d0*/                   IMAD.WIDE R4, R7, 0x4, R4 ;             /* 0x0000000407047825 */
                                                                           /* 0x002fca00078e0204 */
        /*00e0*/                   STG.E desc[UR4][R4.64], R3 ;            /* 0x0000000304007986 */
                                                                           /* 0x004fe2000c101904 */
        /*00f0*/                   EXIT ;                                  /* 0x000000000000794d */
                                                                           /* 0x000fea0003800000 */
        /*0100*/                   BRA 0x100;                              /* 0xfffffffc00fc7947 */
                                                                           /* 0x000fc0000383ffff */
        /*0110*/                   NOP;                                    /* 0x0000000000007918 */
                                                                           /* 0x000fc00000000000 */
		..........
"""

NVDISASM = """
	.headerflags	@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_64BIT_ADDRESS EF_CUDA_SM80 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM80)"
	.elftype	@"ET_EXEC"

//--------------------- .nv.info                  --------------------------
	.section	.nv.info,"",@"SHT_CUDA_INFO"
	.align	4

	//----- nvinfo : EIATTR_REGCOUNT
	.align		4
        /*0000*/ 	.byte	0x04, 0x2f
        /*0002*/ 	.short	(.L_4 - .L_3)
	.align		4
.L_3:
        /*0004*/ 	.word	index@(scale)
        /*0008*/ 	.word	0x00000018

	//----- nvinfo : EIATTR_FRAME_SIZE
	.align		4
        /*000c*/ 	.byte	0x04, 0x11
        /*000e*/ 	.short	(.L_6 - .L_5)
        /*0010*/ 	.word	index@(scale)
        /*0014*/ 	.word	0x00000014

//--------------------- .nv.info.scale            --------------------------
	.section	.nv.info.scale,"",@"SHT_CUDA_INFO"

	//----- nvinfo : EIATTR_KPARAM_INFO
	.align		4
        /*0010*/ 	.byte	0x04, 0x17
        /*0012*/ 	.short	(.L_34 - .L_33)
        /*0014*/ 	.word	0x00000000
        /*0018*/ 	.short	0x0000
        /*001a*/ 	.short	0x0000
        /*001c*/ 	.byte	0x00, 0xf0, 0x21, 0x00

	//----- nvinfo : EIATTR_PARAM_CBANK
	.align		4
        /*007c*/ 	.byte	0x04, 0x0a
        /*007e*/ 	.short	(.L_46 - .L_45)
        /*0080*/ 	.word	index@(.nv.constant0.scale)
        /*0084*/ 	.short	0x0160
        /*0086*/ 	.short	0x0008

//--------------------- .nv.constant3             --------------------------
	.section	.nv.constant3,"a",@progbits
	.align	4
.nv.constant3:
factors:
        /*0000*/ 	.byte	0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x40, 0x40
	.zero		8

//--------------------- .text.scale               --------------------------
	.section	.text.scale,"ax",@progbits
	.sectioninfo	@"SHI_REGISTERS=10"
	.align	128
        .global         scale
        .type           scale,@function
scale:
.text.scale:
	//## File "/nowhere/scale.cu", line 3
        /*0000*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;
        /*0010*/                   S2R R0, SR_TID.X ;
        /*0020*/                   HFMA2.MMA R3, -RZ, RZ, 0, 2.384185791015625e-07 ;
        /*0030*/                   ULDC.64 UR4, c[0x0][0x118] ;
        /*0040*/                   IMAD.WIDE R2, R0, R3, c[0x0][0x160] ;
	//## File "/nowhere/scale.cu", line 4
        /*0050*/                   LDG.E R5, [R2.64] ;
        /*0060*/                   LOP3.LUT P0, R4, R0, 0x1, RZ, 0xc0, !PT ;
        /*0070*/                   IMAD.SHL.U32 R4, R4, 0x4, RZ ;
        /*0080*/                   LDC R4, c[0x3][R4] ;
        /*0090*/               @P0 BRA `(.L_x_0) ;
        /*00a0*/                   FMUL R5, R5, c[0x3][0x0] ;
        /*00b0*/                   BRA `(.L_x_1) ;
.L_x_0:
        /*00c0*/                   FMUL R5, R5, R4 ;
.L_x_1:
        /*00d0*/                   STS [R0.X4], R5 ;
        /*00e0*/                   BAR.SYNC 0x0 ;
        /*00f0*/                   LDS R5, [R0.X4] ;
        /*0100*/                   STG.E [R2.64], R5 ;
        /*0110*/                   EXIT ;
.L_x_2:
        /*0120*/                   BRA `(.L_x_2);
        /*0130*/                   NOP;
.L_x_3:

//--------------------- .nv.shared.scale          --------------------------
	.section	.nv.shared.scale,"aw",@nobits
	.sectionflags	@""
	.align	4
.nv.shared.scale:
	.zero		256

//--------------------- .nv.constant0.scale       --------------------------
	.section	.nv.constant0.scale,"a",@progbits
	.zero		360
"""
