// Shows a folder through FUSE with a write-back cache: written bytes stay in the kernel's pages until a flush, and then
// whole pages are written back. Two mounts of one folder stand for two machines with one file system, whose
// caches do not know of each other.
//
//   mirror FOLDER MOUNTPOINT [-f]
#define FUSE_USE_VERSION 31
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string folder;

std::string real(const char* path) { return folder + path; }
int result(long code) { return code < 0 ? -errno : int(code); }

void* init(fuse_conn_info* connection, fuse_config* config) {
  if ((connection->capable & FUSE_CAP_WRITEBACK_CACHE) == 0) {
    std::fprintf(stderr, "mirror: this kernel has no write-back cache for FUSE\n");
    std::exit(1);
  }
  connection->want |= FUSE_CAP_WRITEBACK_CACHE;
  config->use_ino = 1;
  config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;  // names and sizes are always asked for
  return nullptr;
}

int get_attributes(const char* path, struct stat* about, fuse_file_info*) {
  return result(lstat(real(path).c_str(), about));
}
int change_mode(const char* path, mode_t mode, fuse_file_info*) { return result(chmod(real(path).c_str(), mode)); }
int truncate_file(const char* path, off_t bytes, fuse_file_info*) {
  return result(truncate(real(path).c_str(), bytes));
}
int change_times(const char* path, const timespec times[2], fuse_file_info*) {
  return result(utimensat(AT_FDCWD, real(path).c_str(), times, AT_SYMLINK_NOFOLLOW));
}
int remove_file(const char* path) { return result(unlink(real(path).c_str())); }
int rename_file(const char* from, const char* to, unsigned flags) {
  return flags != 0 ? -EINVAL : result(rename(real(from).c_str(), real(to).c_str()));
}
int make_link(const char* from, const char* to) { return result(link(real(from).c_str(), real(to).c_str())); }

/// Opens files for reading, too: the kernel must read a page of which only a part is written.
int for_reading_too(int flags) {
  flags &= ~O_APPEND;
  return (flags & O_ACCMODE) == O_WRONLY ? (flags & ~O_ACCMODE) | O_RDWR : flags;
}
int open_file(const char* path, fuse_file_info* file) {
  const int id = open(real(path).c_str(), for_reading_too(file->flags));
  file->fh = std::uint64_t(id);
  return id < 0 ? -errno : 0;
}
int create_file(const char* path, mode_t mode, fuse_file_info* file) {
  const int id = open(real(path).c_str(), for_reading_too(file->flags), mode);
  file->fh = std::uint64_t(id);
  return id < 0 ? -errno : 0;
}
int read_file(const char*, char* to, size_t bytes, off_t offset, fuse_file_info* file) {
  return result(pread(int(file->fh), to, bytes, offset));
}
int write_file(const char*, const char* from, size_t bytes, off_t offset, fuse_file_info* file) {
  return result(pwrite(int(file->fh), from, bytes, offset));
}
int flush_file(const char*, int, fuse_file_info* file) { return result(fsync(int(file->fh))); }
int allocate(const char*, int mode, off_t offset, off_t bytes, fuse_file_info* file) {
  return result(fallocate(int(file->fh), mode, offset, bytes));
}
int close_file(const char*, fuse_file_info* file) { return result(close(int(file->fh))); }
int about_system(const char* path, struct statvfs* about) { return result(statvfs(real(path).c_str(), about)); }

}  // namespace

int main(int count, char** words) {
  if (count < 3) return std::fprintf(stderr, "usage: mirror FOLDER MOUNTPOINT [-f]\n"), 2;
  folder = words[1];
  fuse_operations calls{};
  calls.init = init;
  calls.getattr = get_attributes;
  calls.chmod = change_mode;
  calls.truncate = truncate_file;
  calls.utimens = change_times;
  calls.unlink = remove_file;
  calls.rename = rename_file;
  calls.link = make_link;
  calls.open = open_file;
  calls.create = create_file;
  calls.read = read_file;
  calls.write = write_file;
  calls.fsync = flush_file;
  calls.fallocate = allocate;
  calls.release = close_file;
  calls.statfs = about_system;
  words[1] = words[0];
  return fuse_main(count - 1, words + 1, &calls, nullptr);
}
