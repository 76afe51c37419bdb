/* The end of a program whose loader does not find its libmpi: that code, and no call of MPI. */
int main(void)
{
    return 127;
}
