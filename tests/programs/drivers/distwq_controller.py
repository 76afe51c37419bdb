"""distwq: a controller queues calls to workers."""

import distwq


def square(n):
    return n * n


def control(controller):
    ids = [
        controller.submit_call("square", (n,), module_name="__main__")
        for n in range(12)
    ]
    print(
        sorted(
            controller.get_result(task)[1]
            if isinstance(controller.get_result, tuple)
            else value
            for task, value in [controller.get_next_result() for _ in ids]
        )
    )


if __name__ == "__main__":
    if distwq.is_controller:
        distwq.run(fun_name="control", module_name="__main__", verbose=False)
    else:
        distwq.run(verbose=False)
