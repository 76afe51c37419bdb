/* The program of the ABI matrix: what a library does with the constants that were compiled in.
 *
 *   probe FOLDER SIZE
 *
 * Each process writes a file of its own into FOLDER: `library PATH` of the ABI's library that it has
 * mapped, `at NAME` where a check begins, `bad NAME: ...` where it finds something, and `end`. What
 * ends the process is thereby known by the check that it was at. SIZE is that of MPI_COMM_WORLD.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static FILE *told;
static const char *now = "start";
static int rank, size;

static void at(const char *name)
{
    now = name;
    fprintf(told, "at %s\n", name);
    fflush(told);
}

static void check(int good, const char *what, long long value)
{
    if (!good) fprintf(told, "bad %s: %s (%lld)\n", now, what, value);
    fflush(told);
}

static void tell_libraries(void)
{
    char line[4096], last[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/'), *name = path ? strrchr(path, '/') : NULL;
        if (!name || !strstr(name, "libmpi_abi.so") || !strcmp(path, last)) continue;
        fprintf(told, "library %s", path);
        strcpy(last, path);
    }
    if (maps) fclose(maps);
}

static void version(void)
{
    int major = -1, minor = -1;
    at("version");
    MPI_Abi_get_version(&major, &minor);
    check(major == MPI_ABI_VERSION, "MPI_Abi_get_version tells another version", major);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static void statuses(void)
{
    int sent[3] = {1, 2, 3}, got[8] = {0}, count = -1;
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Status status, of_send;
    MPI_Request request;
    at("status");
    MPI_Isend(sent, 3, MPI_INT, right, 7, MPI_COMM_WORLD, &request);
    MPI_Recv(got, 8, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, &of_send);
    MPI_Get_count(&status, MPI_INT, &count);
    check(request == MPI_REQUEST_NULL, "a request that is done is not MPI_REQUEST_NULL", 0);
    check(status.MPI_SOURCE == left, "MPI_SOURCE is wrong", status.MPI_SOURCE);
    check(status.MPI_TAG == 7, "MPI_TAG is wrong", status.MPI_TAG);
    check(count == 3 && got[2] == 3, "the count or the data is wrong", count);
    MPI_Get_count(&status, MPI_LONG_DOUBLE, &count);
    check(count == MPI_UNDEFINED, "a part of an element is not MPI_UNDEFINED", count);
    MPI_Recv(got, 8, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    check(status.MPI_SOURCE == MPI_PROC_NULL, "the source of an empty status is not MPI_PROC_NULL", status.MPI_SOURCE);
    check(status.MPI_TAG == MPI_ANY_TAG, "the tag of an empty status is not MPI_ANY_TAG", status.MPI_TAG);
}

static void types(void)
{
    struct { MPI_Datatype type; int octets; } rows[] = {
        {MPI_CHAR, 1}, {MPI_SIGNED_CHAR, 1}, {MPI_UNSIGNED_CHAR, 1}, {MPI_BYTE, 1}, {MPI_SHORT, sizeof(short)},
        {MPI_UNSIGNED_SHORT, sizeof(short)}, {MPI_INT, sizeof(int)}, {MPI_UNSIGNED, sizeof(int)},
        {MPI_LONG, sizeof(long)}, {MPI_UNSIGNED_LONG, sizeof(long)}, {MPI_LONG_LONG, 8}, {MPI_UNSIGNED_LONG_LONG, 8},
        {MPI_FLOAT, 4}, {MPI_DOUBLE, 8}, {MPI_LONG_DOUBLE, sizeof(long double)}, {MPI_WCHAR, sizeof(wchar_t)},
        {MPI_C_BOOL, sizeof(_Bool)}, {MPI_INT8_T, 1}, {MPI_INT16_T, 2}, {MPI_INT32_T, 4}, {MPI_INT64_T, 8},
        {MPI_UINT8_T, 1}, {MPI_UINT16_T, 2}, {MPI_UINT32_T, 4}, {MPI_UINT64_T, 8}, {MPI_AINT, sizeof(MPI_Aint)},
        {MPI_COUNT, sizeof(MPI_Count)}, {MPI_OFFSET, sizeof(MPI_Offset)}, {MPI_C_FLOAT_COMPLEX, 8},
        {MPI_C_DOUBLE_COMPLEX, 16}, {MPI_2INT, 2 * sizeof(int)}, {MPI_FLOAT_INT, 4 + sizeof(int)},
        {MPI_DOUBLE_INT, 8 + sizeof(int)},
    };
    int i, octets, integers, addresses, datatypes, combiner;
    MPI_Datatype vector;
    at("types");
    for (i = 0; i < COUNT(rows); i++) {
        MPI_Type_size(rows[i].type, &octets);
        check(octets == rows[i].octets, "a predefined datatype has another size", (long long)(intptr_t)rows[i].type);
    }
    MPI_Type_get_envelope(MPI_INT, &integers, &addresses, &datatypes, &combiner);
    check(combiner == MPI_COMBINER_NAMED, "MPI_INT is not MPI_COMBINER_NAMED", combiner);
    MPI_Type_vector(2, 1, 3, MPI_INT, &vector);
    MPI_Type_get_envelope(vector, &integers, &addresses, &datatypes, &combiner);
    check(combiner == MPI_COMBINER_VECTOR, "a vector is not MPI_COMBINER_VECTOR", combiner);
    MPI_Type_free(&vector);
    check(vector == MPI_DATATYPE_NULL, "a freed type is not MPI_DATATYPE_NULL", 0);
}

static void operations(void)
{
    struct { MPI_Op op; int due; } rows[] = {
        {MPI_SUM, 0}, {MPI_PROD, 1}, {MPI_MIN, 1}, {MPI_MAX, 1}, {MPI_BAND, 1}, {MPI_BOR, 1}, {MPI_BXOR, 0},
        {MPI_LAND, 1}, {MPI_LOR, 1}, {MPI_LXOR, 0},
    };
    struct { double value; int place; } pair = {-rank, rank};
    int i, value, other;
    at("operations");
    for (other = 1; other <= size; other++) {
        rows[0].due += other;
        rows[1].due *= other;
        rows[3].due = other;
        rows[4].due &= other;
        rows[5].due |= other;
        rows[6].due ^= other;
        rows[9].due = !rows[9].due;
    }
    for (i = 0; i < COUNT(rows); i++) {
        value = rank + 1;
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, rows[i].op, MPI_COMM_WORLD);
        check(value == rows[i].due, "a reduction is wrong, of the operation", (long long)(intptr_t)rows[i].op);
    }
    MPI_Allreduce(MPI_IN_PLACE, &pair, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    check(pair.place == size - 1, "MPI_MINLOC is wrong", pair.place);
}

static void handles(void)
{
    MPI_Comm dup;
    MPI_Group group;
    int result = -1;
    at("handles");
    check(MPI_Comm_toint(MPI_COMM_WORLD) == (int)(intptr_t)MPI_COMM_WORLD, "MPI_Comm_toint(MPI_COMM_WORLD) is another number",
          MPI_Comm_toint(MPI_COMM_WORLD));
    check(MPI_Type_toint(MPI_INT) == (int)(intptr_t)MPI_INT, "MPI_Type_toint(MPI_INT) is another number",
          MPI_Type_toint(MPI_INT));
    check(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_SELF)) == MPI_COMM_SELF, "MPI_Comm_fromint gives another handle", 0);
    MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result);
    check(result == MPI_IDENT, "a communicator and itself are not MPI_IDENT", result);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_compare(MPI_COMM_WORLD, dup, &result);
    check(result == MPI_CONGRUENT, "a communicator and its copy are not MPI_CONGRUENT", result);
    MPI_Comm_free(&dup);
    check(dup == MPI_COMM_NULL, "a freed communicator is not MPI_COMM_NULL", 0);
    MPI_Group_incl(MPI_GROUP_EMPTY, 0, NULL, &group);
    MPI_Group_compare(group, MPI_GROUP_EMPTY, &result);
    check(result == MPI_IDENT, "two empty groups are not MPI_IDENT", result);
}

static void profiling(void)
{
    int here = -1;
    MPI_Comm comm;
    at("profiling");
    PMPI_Comm_size(MPI_COMM_WORLD, &here);
    check(here == size, "PMPI_Comm_size tells another size", here);
    comm = PMPI_Comm_fromint(PMPI_Comm_toint(MPI_COMM_WORLD));
    check(comm == MPI_COMM_WORLD, "PMPI_Comm_fromint gives another handle", (long long)(intptr_t)comm);
    check(PMPI_Type_fromint(PMPI_Type_toint(MPI_INT)) == MPI_INT, "PMPI_Type_fromint gives another handle", 0);
}

static void attributes(void)
{
    int *value, flag, level = -1;
    at("attributes");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    check(flag && *value >= 32767, "MPI_TAG_UB is not there, or too small", flag ? *value : -1);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
    check(flag && (*value == 0 || *value == 1), "MPI_WTIME_IS_GLOBAL is neither 0 nor 1", flag ? *value : -1);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag);
    check(flag && *value >= MPI_ERR_LASTCODE, "MPI_LASTUSEDCODE is below MPI_ERR_LASTCODE", flag ? *value : -1);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag);
    check(!flag || *value >= 1, "MPI_UNIVERSE_SIZE is not a size", flag ? *value : -1);
    MPI_Query_thread(&level);
    check(level == MPI_THREAD_SINGLE || level == MPI_THREAD_FUNNELED || level == MPI_THREAD_SERIALIZED ||
              level == MPI_THREAD_MULTIPLE, "MPI_Query_thread tells no level", level);
}

static void windows(void)
{
    void *base;
    MPI_Aint *octets;
    MPI_Win win;
    int *value, flag;
    at("windows");
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &octets, &flag);
    check(flag && *octets == 64, "MPI_WIN_SIZE is wrong", flag ? (long long)*octets : -1);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag);
    check(flag && *value == MPI_WIN_FLAVOR_ALLOCATE, "MPI_WIN_CREATE_FLAVOR is wrong", flag ? *value : -1);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag);
    check(flag && (*value == MPI_WIN_SEPARATE || *value == MPI_WIN_UNIFIED), "MPI_WIN_MODEL is none", flag ? *value : -1);
    MPI_Win_free(&win);
}

static void files(const char *folder)
{
    char path[4096];
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, told_mode = 0;
    MPI_Offset place = -1;
    MPI_Status status;
    MPI_File file;
    at("files");
    snprintf(path, sizeof path, "%s/data-%d", folder, (int)getpid());
    if (MPI_File_open(MPI_COMM_SELF, path, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS) {
        check(0, "MPI_File_open with MPI_MODE_CREATE and MPI_MODE_RDWR fails", mode);
        return;
    }
    MPI_File_get_amode(file, &told_mode);
    check(told_mode == mode, "MPI_File_get_amode tells another mode", told_mode);
    MPI_File_write(file, "octets of", 8, MPI_BYTE, &status);
    MPI_File_seek(file, 2, MPI_SEEK_SET);
    MPI_File_get_position(file, &place);
    check(place == 2, "MPI_SEEK_SET leads to another place", place);
    MPI_File_seek(file, 3, MPI_SEEK_CUR);
    MPI_File_get_position(file, &place);
    check(place == 5, "MPI_SEEK_CUR leads to another place", place);
    MPI_File_seek(file, -1, MPI_SEEK_END);
    MPI_File_get_position(file, &place);
    check(place == 7, "MPI_SEEK_END leads to another place", place);
    MPI_File_close(&file);
}

static void errors(void)
{
    static const int classes[] = {
        MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_REQUEST,
        MPI_ERR_ROOT, MPI_ERR_GROUP, MPI_ERR_OP, MPI_ERR_TOPOLOGY, MPI_ERR_DIMS, MPI_ERR_ARG, MPI_ERR_UNKNOWN,
        MPI_ERR_TRUNCATE, MPI_ERR_OTHER, MPI_ERR_INTERN, MPI_ERR_PENDING, MPI_ERR_IN_STATUS, MPI_ERR_ACCESS,
        MPI_ERR_AMODE, MPI_ERR_CONVERSION, MPI_ERR_FILE, MPI_ERR_FILE_EXISTS, MPI_ERR_INFO, MPI_ERR_KEYVAL,
        MPI_ERR_NO_SUCH_FILE, MPI_ERR_PORT, MPI_ERR_RMA_SYNC, MPI_ERR_SERVICE, MPI_ERR_SPAWN, MPI_ERR_WIN,
        MPI_ERR_SESSION, MPI_ERR_ERRHANDLER,
    };
    char text[MPI_MAX_ERROR_STRING], due[MPI_MAX_ERROR_STRING];
    int i, class, length, code;
    MPI_Comm dup;
    at("error classes");
    for (i = 0; i < COUNT(classes); i++) {
        class = -1;
        MPI_Error_class(classes[i], &class);
        check(class == classes[i], "an error class is another one of itself", classes[i]);
    }
    /* The words are a library's own. But where another class has those of this one, they are confused. */
    MPI_Error_string(MPI_ERR_FILE_EXISTS, due, &length);
    for (i = 0; i < COUNT(classes) && !strcasestr(due, "file exists"); i++) {
        MPI_Error_string(classes[i], text, &length);
        if (!strcasestr(text, "file exists")) continue;
        fprintf(told, "bad %s: MPI_Error_string of MPI_ERR_FILE_EXISTS is \"%.60s\", and of class %d \"%.60s\"\n", now,
                due, classes[i], text);
        break;
    }
    /* The last one: where MPI_ERRORS_RETURN is another handler, the process ends here. */
    at("MPI_ERRORS_RETURN");
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
    code = MPI_Send(&i, 1, MPI_INT, size, 0, dup);
    class = -1;
    MPI_Error_class(code, &class);
    check(class == MPI_ERR_RANK, "a send to no rank is not MPI_ERR_RANK", class);
    MPI_Comm_free(&dup);
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc != 3) return 4;
    snprintf(path, sizeof path, "%s/told-%d", argv[1], (int)getpid());
    if (!(told = fopen(path, "w"))) return 4;
    tell_libraries();
    at("MPI_Init");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    version();
    check(size == atoi(argv[2]), "MPI_COMM_WORLD has another size", size);
    statuses();
    types();
    operations();
    handles();
    profiling();
    attributes();
    windows();
    files(argv[1]);
    errors();
    at("MPI_Finalize");
    MPI_Finalize();
    fprintf(told, "end\n");
    return fclose(told) != 0;
}
