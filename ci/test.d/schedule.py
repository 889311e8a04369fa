# SPDX-License-Identifier: BSD-2-Clause
"""Which piece of work runs when: so many side by side, and those that need quiet alone, at the end."""

import queue
import threading


class Schedule:
    """Work is (weight, run, done): run() in a thread of its own, then done(its value) in the one that serves.

    done may add more work.
    """

    def __init__(self, size):
        self.size = size
        self.free = size
        self.waiting = []
        self.alone = []
        self.finished = queue.Queue()
        self.running = 0

    def add(self, weight, run, done):
        self.waiting.append((min(weight, self.size), run, done))

    def add_alone(self, run, done):
        self.alone.append((self.size, run, done))

    def serve(self):
        """Until all is done."""
        while self.start_what_fits():
            weight, done, value = self.finished.get()
            self.free += weight
            self.running -= 1
            done(value)

    def start_what_fits(self):
        """Is anything running?"""
        work = self.waiting or (self.alone if not self.running else [])
        for piece in list(work):
            if piece[0] <= self.free:
                work.remove(piece)
                self.start(*piece)
        return self.running > 0

    def start(self, weight, run, done):
        self.free -= weight
        self.running += 1
        threading.Thread(target=lambda: self.finished.put((weight, done, run())), daemon=True).start()
