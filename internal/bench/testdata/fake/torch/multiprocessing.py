def spawn(work, args, nprocs):
    for i in reversed(range(nprocs)):
        work(i, *args)
