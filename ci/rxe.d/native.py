def possible():
    return False
