/* Files in C: argv[1] is the path of one that all procs see. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int errors, rank, size, called;

#define CHECK(condition) do { if (!(condition)) { errors++; printf("line %d: %s\n", __LINE__, #condition); } } while (0)

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static void failing(MPI_File *file, int *code, ...)
{
    (void)file;
    called = class_of(*code);
}

/* Each proc writes its part, all read all: at offsets, by pointers of both kinds, and collectively. */
static void parts(const char *path)
{
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    MPI_Offset offset;
    MPI_Group group;
    int mine[4], got[4], mode, count, members;
    for (int i = 0; i < 4; i++) mine[i] = 10 * rank + i;
    CHECK(!MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    CHECK(!MPI_File_get_amode(file, &mode) && mode == (MPI_MODE_RDWR | MPI_MODE_CREATE));
    CHECK(!MPI_File_get_group(file, &group) && !MPI_Group_size(group, &members) && members == size);
    MPI_Group_free(&group);
    CHECK(!MPI_File_set_size(file, 0));
    CHECK(!MPI_File_write_at_all(file, rank * (MPI_Offset)sizeof mine, mine, 4, MPI_INT, &status));
    CHECK(!MPI_Get_count(&status, MPI_INT, &count) && count == 4);
    CHECK(!MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    int other = (rank + 1) % size;
    CHECK(!MPI_File_set_view(file, other * (MPI_Offset)sizeof mine, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK(!MPI_File_seek(file, 1, MPI_SEEK_SET) && !MPI_File_get_position(file, &offset) && offset == 1);
    CHECK(!MPI_File_iread(file, got, 3, MPI_INT, &request) && !MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL && got[0] == 10 * other + 1 && got[2] == 10 * other + 3);
    CHECK(!MPI_File_read_at_all_begin(file, 0, got, 4, MPI_INT) && !MPI_File_read_at_all_end(file, got, &status));
    CHECK(got[0] == 10 * other);
    CHECK(!MPI_File_get_size(file, &offset) && offset == size * (MPI_Offset)sizeof mine);
    CHECK(!MPI_File_close(&file) && file == MPI_FILE_NULL);
}

/* Views with holes, and what they are asked for. */
static void views(const char *path)
{
    MPI_File file;
    MPI_Datatype column, etype, filetype;
    MPI_Offset disp;
    MPI_Aint extent;
    char datarep[MPI_MAX_DATAREP_STRING];
    int one[2] = {rank, rank + 100}, row[8];
    MPI_Type_vector(2, 1, size, MPI_INT, &column);
    MPI_Type_commit(&column);
    CHECK(!MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(!MPI_File_set_view(file, rank * (MPI_Offset)sizeof(int), MPI_INT, column, "external32", MPI_INFO_NULL));
    CHECK(!MPI_File_get_view(file, &disp, &etype, &filetype, datarep));
    CHECK(disp == rank * (MPI_Offset)sizeof(int) && etype == MPI_INT && !strcmp(datarep, "external32"));
    CHECK(!MPI_File_get_type_extent(file, MPI_INT, &extent) && extent == 4);
    MPI_Type_free(&filetype);
    CHECK(!MPI_File_write_all(file, one, 2, MPI_INT, MPI_STATUS_IGNORE));
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(!MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    CHECK(!MPI_File_read_at(file, 0, row, 2 * size, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < size; i++) CHECK(row[i] == i && row[size + i] == i + 100);
    MPI_File_close(&file);
    MPI_Type_free(&column);
}

/* The shared pointer: every number comes once. */
static void shared(const char *path)
{
    MPI_File file;
    MPI_Offset offset;
    int got = -1;
    CHECK(!MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    CHECK(!MPI_File_write_ordered(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(!MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    CHECK(!MPI_File_read_ordered(file, &got, 1, MPI_INT, MPI_STATUS_IGNORE) && got == rank);
    CHECK(!MPI_File_get_position_shared(file, &offset) && offset == size * (MPI_Offset)sizeof(int));
    MPI_File_close(&file);
}

/* Errors of files return by default; a handler of MPI_FILE_NULL is that of new files. */
static void refused(const char *path)
{
    MPI_File file = MPI_FILE_NULL;
    MPI_Errhandler handler;
    int code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK(class_of(code) == MPI_ERR_NO_SUCH_FILE && file == MPI_FILE_NULL);
    CHECK(class_of(MPI_File_close(&file)) == MPI_ERR_FILE);
    MPI_File_create_errhandler(failing, &handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK(called == MPI_ERR_NO_SUCH_FILE);
    CHECK(!MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    called = 0;
    MPI_File_read_at(file, 0, &code, 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(called == MPI_ERR_ACCESS);
    MPI_File_close(&file);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank) CHECK(!MPI_File_delete(path, MPI_INFO_NULL));
}

/* A file of one proc: in front mode the library's own. */
static void own(const char *path)
{
    char name[4096];
    MPI_File file;
    int got = 0;
    snprintf(name, sizeof name, "%s.%d", path, rank);
    CHECK(!MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    CHECK(!MPI_File_write(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(!MPI_File_read_at(file, 0, &got, 1, MPI_INT, MPI_STATUS_IGNORE) && got == rank);
    CHECK(!MPI_File_close(&file) && file == MPI_FILE_NULL);
}

static int swapped(char *to, const char *from, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < (int)sizeof(int); k++) to[i * sizeof(int) + k] = from[i * sizeof(int) + sizeof(int) - 1 - k];
    return MPI_SUCCESS;
}

static int reading(void *user, MPI_Datatype type, int count, void *octets, MPI_Offset position, void *state)
{
    (void)type;
    ++*(int *)state;
    return swapped((char *)user + position * sizeof(int), octets, count);
}

static int writing(void *user, MPI_Datatype type, int count, void *octets, MPI_Offset position, void *state)
{
    (void)type;
    ++*(int *)state;
    return swapped(octets, (char *)user + position * sizeof(int), count);
}

static int measured(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    int octets;
    (void)state;
    MPI_Type_size(type, &octets);
    *extent = octets;
    return MPI_SUCCESS;
}

/* A representation whose functions are the program's: octets in the other order. */
static void represented(const char *path)
{
    static int calls;
    MPI_File file;
    int value = 0x01020304 + rank, got = 0;
    char octets[4];
    CHECK(!MPI_Register_datarep("swapped", reading, writing, measured, &calls));
    CHECK(!MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    CHECK(!MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "swapped", MPI_INFO_NULL));
    CHECK(!MPI_File_write_at(file, rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(!MPI_File_read_at(file, rank, &got, 1, MPI_INT, MPI_STATUS_IGNORE) && got == value && calls == 2);
    CHECK(!MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK(!MPI_File_read_at(file, 4 * rank, octets, 4, MPI_BYTE, MPI_STATUS_IGNORE) && octets[0] == 1 && octets[3] == 4 + rank);
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    parts(argv[1]);
    views(argv[1]);
    shared(argv[1]);
    refused(argv[1]);
    own(argv[1]);
    represented(argv[1]);
    printf("rank %d: %d errors\n", rank, errors);
    MPI_Finalize();
    return errors != 0;
}
