// Replaces <mpi.h> if the library is built without MPI (-DANNULUS_MPI=OFF). It declares MPI's names, so that the folder
// comm compiles, but sends no messages. Almost all of its functions only return an error. A communicator of one process
// (comm::Communicator()) calls none of these functions.
#pragma once

#include <cstring>

using MPI_Aint = long;
using MPI_Count = long long;
using MPI_Comm = int;
using MPI_Datatype = int;
using MPI_Errhandler = int;
using MPI_File = int;
using MPI_Info = int;
using MPI_Op = int;
using MPI_Request = int;
using MPI_Win = int;
using MPI_T_cvar_handle = int;
struct MPI_Status {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
};

inline MPI_Status* const MPI_STATUS_IGNORE = nullptr;
inline MPI_Status* const MPI_STATUSES_IGNORE = nullptr;
inline char mpi_in_place = 0;
inline void* const MPI_IN_PLACE = &mpi_in_place;

inline constexpr int MPI_SUCCESS = 0, MPI_ERR_IN_STATUS = 1, MPI_ERR_PENDING = 2, MPI_ERR_WIN = 3, MPI_ERR_OTHER = 4;
inline constexpr int MPI_COMM_NULL = 0, MPI_COMM_WORLD = 1, MPI_COMM_SELF = 2, MPI_COMM_TYPE_SHARED = 0;
inline constexpr int MPI_DATATYPE_NULL = 0, MPI_REQUEST_NULL = 0, MPI_WIN_NULL = 0, MPI_INFO_NULL = 0;
inline constexpr int MPI_T_CVAR_HANDLE_NULL = 0, MPI_ERRORS_RETURN = 0, MPI_UNDEFINED = -1, MPI_ANY_SOURCE = -1;
inline constexpr int MPI_MAX = 0, MPI_SUM = 1, MPI_MODE_NOCHECK = 0, MPI_THREAD_SINGLE = 0, MPI_THREAD_FUNNELED = 1;
inline constexpr int MPI_BYTE = 1, MPI_CHAR = 2, MPI_INT = 3, MPI_FLOAT = 4, MPI_DOUBLE = 5, MPI_INT64_T = 6;
inline constexpr int MPI_UINT64_T = 7, MPI_LOCK_SHARED = 0, MPI_KEYVAL_INVALID = -1, MPI_COMM_NULL_COPY_FN = 0;
inline constexpr int MPI_FILE_NULL = 0, MPI_MODE_CREATE = 1, MPI_MODE_EXCL = 2, MPI_MODE_RDWR = 4;
inline constexpr int MPI_MAX_INFO_KEY = 256, MPI_MAX_INFO_VAL = 1024;
inline constexpr int MPI_MAX_ERROR_STRING = 64, MPI_MAX_LIBRARY_VERSION_STRING = 64, MPI_MAX_PROCESSOR_NAME = 64;

// These functions accept any arguments. They are not templates, because blocking() takes their addresses.
#define ANNULUS_WITHOUT_MPI(name) \
  inline int name(...) { return MPI_ERR_OTHER; }
ANNULUS_WITHOUT_MPI(MPI_Abort)
ANNULUS_WITHOUT_MPI(MPI_Cancel)
ANNULUS_WITHOUT_MPI(MPI_Comm_create_keyval)
ANNULUS_WITHOUT_MPI(MPI_Comm_dup)
ANNULUS_WITHOUT_MPI(MPI_Comm_free)
ANNULUS_WITHOUT_MPI(MPI_Comm_get_attr)
ANNULUS_WITHOUT_MPI(MPI_Comm_rank)
ANNULUS_WITHOUT_MPI(MPI_Comm_set_attr)
ANNULUS_WITHOUT_MPI(MPI_Comm_set_errhandler)
ANNULUS_WITHOUT_MPI(MPI_Comm_size)
ANNULUS_WITHOUT_MPI(MPI_Comm_split)
ANNULUS_WITHOUT_MPI(MPI_Comm_split_type)
ANNULUS_WITHOUT_MPI(MPI_Comm_test_inter)
ANNULUS_WITHOUT_MPI(MPI_Finalize)
ANNULUS_WITHOUT_MPI(MPI_Finalized)
ANNULUS_WITHOUT_MPI(MPI_Get_processor_name)
ANNULUS_WITHOUT_MPI(MPI_Get_version)
ANNULUS_WITHOUT_MPI(MPI_Iallgather)
ANNULUS_WITHOUT_MPI(MPI_Iallgatherv)
ANNULUS_WITHOUT_MPI(MPI_Iallreduce)
ANNULUS_WITHOUT_MPI(MPI_Ialltoall)
ANNULUS_WITHOUT_MPI(MPI_Ibarrier)
ANNULUS_WITHOUT_MPI(MPI_Ibcast)
ANNULUS_WITHOUT_MPI(MPI_File_close)
ANNULUS_WITHOUT_MPI(MPI_File_open)
ANNULUS_WITHOUT_MPI(MPI_Info_create)
ANNULUS_WITHOUT_MPI(MPI_Info_free)
ANNULUS_WITHOUT_MPI(MPI_Info_set)
ANNULUS_WITHOUT_MPI(MPI_Igather)
ANNULUS_WITHOUT_MPI(MPI_Init_thread)
ANNULUS_WITHOUT_MPI(MPI_Initialized)
ANNULUS_WITHOUT_MPI(MPI_Iprobe)
ANNULUS_WITHOUT_MPI(MPI_Irecv)
ANNULUS_WITHOUT_MPI(MPI_Isend)
ANNULUS_WITHOUT_MPI(MPI_Raccumulate)
ANNULUS_WITHOUT_MPI(MPI_Request_free)
ANNULUS_WITHOUT_MPI(MPI_Rget)
ANNULUS_WITHOUT_MPI(MPI_Rput)
ANNULUS_WITHOUT_MPI(MPI_Sendrecv)
ANNULUS_WITHOUT_MPI(MPI_Test)
ANNULUS_WITHOUT_MPI(MPI_Testall)
ANNULUS_WITHOUT_MPI(MPI_Testsome)
ANNULUS_WITHOUT_MPI(MPI_Type_commit)
ANNULUS_WITHOUT_MPI(MPI_Type_contiguous)
ANNULUS_WITHOUT_MPI(MPI_Type_create_hindexed)
ANNULUS_WITHOUT_MPI(MPI_Type_create_hvector)
ANNULUS_WITHOUT_MPI(MPI_Type_create_resized)
ANNULUS_WITHOUT_MPI(MPI_Type_create_struct)
ANNULUS_WITHOUT_MPI(MPI_Type_free)
ANNULUS_WITHOUT_MPI(MPI_Type_size)
ANNULUS_WITHOUT_MPI(MPI_Type_size_x)
ANNULUS_WITHOUT_MPI(MPI_T_cvar_get_index)
ANNULUS_WITHOUT_MPI(MPI_T_cvar_handle_alloc)
ANNULUS_WITHOUT_MPI(MPI_T_cvar_handle_free)
ANNULUS_WITHOUT_MPI(MPI_T_cvar_read)
ANNULUS_WITHOUT_MPI(MPI_T_finalize)
ANNULUS_WITHOUT_MPI(MPI_T_init_thread)
ANNULUS_WITHOUT_MPI(MPI_Wait)
ANNULUS_WITHOUT_MPI(MPI_Waitall)
ANNULUS_WITHOUT_MPI(MPI_Win_allocate)
ANNULUS_WITHOUT_MPI(MPI_Win_flush)
ANNULUS_WITHOUT_MPI(MPI_Win_flush_all)
ANNULUS_WITHOUT_MPI(MPI_Win_free)
ANNULUS_WITHOUT_MPI(MPI_Win_lock_all)
ANNULUS_WITHOUT_MPI(MPI_Win_set_errhandler)
ANNULUS_WITHOUT_MPI(MPI_Win_sync)
ANNULUS_WITHOUT_MPI(MPI_Win_unlock_all)
#undef ANNULUS_WITHOUT_MPI

/// Succeeds, because planning, which also works without MPI, asks for the library's version.
inline int MPI_Get_library_version(char* text, int* length) {
  std::strcpy(text, "none");
  *length = 4;
  return MPI_SUCCESS;
}
inline int MPI_Error_string(int, char* text, int* length) {
  std::strcpy(text, "this annulus was built without MPI (ANNULUS_MPI=OFF)");
  *length = int(std::strlen(text));
  return MPI_SUCCESS;
}
